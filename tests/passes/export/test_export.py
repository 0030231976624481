"""What is handed on is what was computed: checkpoints open in transformers, scripts and recipes repeat the result."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from espalier.model.document.project import Project, save_project
from espalier.model.document.recipe import Raw, Recipe, Step
from espalier.model.errors import ExportError
from espalier.model.formats.integer import Integer
from espalier.model.graph.meta import Precision
from espalier.model.opening import Opened, open_any
from espalier.model.sources.info import SourceInfo
from espalier.model.torch.build import build
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.export import export
from espalier.passes.export.checkpoint import SCRIPT
from espalier.passes.export.loading import load_folder
from espalier.passes.export.recipe import to_toml
from espalier.passes.export.script import script_of
from espalier.passes.plugins.plugins import load_plugin, unload_plugins
from espalier.passes.recipes.config import load_recipe
from espalier.passes.recipes.replay import replay
from espalier.passes.score import static_score
from espalier.passes.training.options import FinetuneOptions
from espalier.passes.transform.calibrate import CalibrateOptions
from espalier.passes.transform.prune import prune
from tests.model.zoo import case, run
from tests.patience import PATIENCE

BERT = (
    "config:bert?num_hidden_layers=1&hidden_size=32&num_attention_heads=2&intermediate_size=64&vocab_size=100"
    "&task={task}"
)
WEIGHTS_ONLY = {
    "remove_dropout": {},
    "quantize_transform_pass": {
        "by": "type",
        "linear": {"config": {"name": "integer", "weight_width": 8, "weight_frac_width": 7}},
    },
    "prune": {"sparsity": 0.5, "method": "random"},
}


def compressed(spec: str, folder: Path, recipe: Any = WEIGHTS_ONLY) -> tuple[Opened, Project]:
    opened = open_any(spec, folder / "work", seed=1, origin=Origin.TYPED)
    steps = load_recipe(recipe, 3)
    done = replay(opened.project.graph, steps, Context(opened.store, callables=opened.callables))
    return opened, replace(opened.project, recipe=steps, graph=done.graph)


def results(opened: Opened, project: Project, values: dict[str, Any]) -> torch.Tensor:
    with torch.no_grad():
        return next(iter(build(project.graph, opened.store, opened.callables)(**values).values()))


@pytest.mark.slow
@pytest.mark.parametrize("task", ["sequence-classification", "masked-lm"])
def test_a_checkpoint_opens_in_transformers(tmp_path: Path, task: str) -> None:
    """masked-lm ties the embedding to the output layer, whose formats and masks differ from the embedding's."""
    import transformers

    opened, project = compressed(BERT.format(task=task), tmp_path)
    done = export(project, opened.store, "safetensors", tmp_path / "out")
    names = {Path(f).name for f in done.files}
    assert {"config.json", "model.safetensors"} <= names
    assert done.bytes == sum(Path(f).stat().st_size for f in done.files)
    cls = transformers.AutoModelForMaskedLM if task == "masked-lm" else transformers.AutoModelForSequenceClassification
    model = cls.from_pretrained(tmp_path / "out").eval()
    values = {"input_ids": torch.randint(0, 100, (3, 7)), "attention_mask": torch.ones(3, 7, dtype=torch.long)}
    if task == "masked-lm":
        assert any("tie_word_embeddings = false" in note for note in done.notes)
    with torch.no_grad():
        torch.testing.assert_close(model(**values).logits, results(opened, project, values))
    dense = dict(model.named_parameters())["bert.encoder.layer.0.output.dense.weight"]
    assert int((dense == 0).sum()) >= dense.numel() // 2


@pytest.mark.slow
def test_a_local_folder_keeps_its_tokenizer(tmp_path: Path) -> None:
    from transformers import BertConfig, BertForSequenceClassification

    home = tmp_path / "home"
    config = BertConfig(
        num_hidden_layers=1, hidden_size=32, num_attention_heads=2, intermediate_size=64, vocab_size=50, num_labels=3
    )
    BertForSequenceClassification(config).save_pretrained(home)
    (home / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]))
    opened, project = compressed(str(home), tmp_path)
    (tmp_path / "out").mkdir()
    for name, text in (("load.py", SCRIPT), ("graph.json", "{}"), ("notes.txt", "mine")):  # of an export before
        (tmp_path / "out" / name).write_text(text)
    done = export(project, opened.store, "safetensors", tmp_path / "out")
    assert "vocab.txt" in {Path(f).name for f in done.files}
    assert not (tmp_path / "out" / "load.py").exists() and not (tmp_path / "out" / "graph.json").exists()
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"
    again = open_any(str(tmp_path / "out"), tmp_path / "again", origin=Origin.TYPED)
    assert again.project.graph.nodes.keys() == opened.project.graph.nodes.keys()


FACTORY = """
import torch
from torch import nn

class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 3)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return {"y": self.two(self.drop(torch.relu(self.one(x))))}

def make():
    return Plain(), {"x": torch.randn(2, 8)}
"""


def test_another_model_comes_with_its_graph(tmp_path: Path) -> None:
    source = tmp_path / "source.py"
    source.write_text(FACTORY)
    recipe = {**WEIGHTS_ONLY}
    recipe["quantize_transform_pass"] = {
        "by": "type",
        "linear": {"config": {"name": "integer", "weight_width": 6, "weight_frac_width": 5, "data_in_width": 8}},
    }
    opened, project = compressed(f"{source}:make", tmp_path, recipe)
    done = export(project, opened.store, "safetensors", tmp_path / "out")
    assert {Path(f).name for f in done.files} == {"README.md", "graph.json", "load.py", "model.safetensors"}
    assert not done.notes
    module = load_folder(tmp_path / "out")
    x = torch.randn(5, 8)
    with torch.no_grad():
        assert torch.equal(module(x=x)["y"], results(opened, project, {"x": x}))
    assert "load_folder" in (tmp_path / "out" / "README.md").read_text()


RECORDED = """
import torch
from torch import nn

class Choosy(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 4)

    def forward(self, x):
        y = self.first(x)
        return self.second(torch.relu(y)) if float(y.detach().sum()) < 1e9 else self.second(y)

def make():
    return Choosy(), {"x": torch.randn(2, 4)}
"""


def test_a_recorded_model_leaves_as_weights_for_its_own_code(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    source = tmp_path / "choosy.py"
    source.write_text(RECORDED)
    opened, project = compressed(f"{source}:make", tmp_path, {"prune": {"sparsity": 0.5}})
    if project.graph.runs != "module":  # torch took the branch apart
        project = replace(project, graph=replace(project.graph, runs="module"))
    done = export(project, opened.store, "safetensors", tmp_path / "out")
    assert {Path(f).name for f in done.files} == {"README.md", "model.safetensors"}
    text = (tmp_path / "out" / "README.md").read_text()
    assert "choosy.py:make" in text and "load.py" not in text and str(tmp_path) not in text
    space: dict[str, Any] = {}
    exec(RECORDED, space)
    model, _ = space["make"]()
    found = load_file(tmp_path / "out" / "model.safetensors")
    missing, unknown = model.load_state_dict(found, strict=False)
    assert not missing and not unknown and int((model.first.weight == 0).sum()) == 12


def test_weights_in_several_ways_come_with_their_masks(tmp_path: Path) -> None:
    """One layer called twice, quantised and pruned in the first call only."""
    held = case("twice")
    first, second = (n for n in held.graph if n.target == "layer")
    graph = held.graph.replace(replace(first, precision={"weight": Precision(Integer(4, 3))}))
    graph = prune(graph, PruneOptions(0.5), Context(held.store))[0]
    graph = graph.replace(replace(graph[second.id], sparsity={}))
    project = Project(SourceInfo("x.pt2", "model"), held.graph, Recipe(), graph)
    export(project, held.store, "safetensors", tmp_path / "out")
    values = held.fresh(3, 5)
    for got, want in zip(
        run(load_folder(tmp_path / "out"), values), run(build(graph, held.store), values), strict=True
    ):
        assert torch.equal(got, want)


@pytest.mark.slow
def test_a_causal_model_keeps_its_generation_settings_and_its_tie(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

    home = tmp_path / "home"
    model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=32, n_head=2, vocab_size=100, n_positions=32))
    model.generation_config.max_new_tokens = 7
    model.save_pretrained(home)
    opened = open_any(str(home), tmp_path / "work", origin=Origin.TYPED)
    export(opened.project, opened.store, "safetensors", tmp_path / "out")
    from safetensors import safe_open

    with safe_open(tmp_path / "out" / "model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"} and "lm_head.weight" not in file.keys()  # noqa: SIM118
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    assert again.generation_config.max_new_tokens == 7
    assert again.lm_head.weight.data_ptr() == again.transformer.wte.weight.data_ptr()
    ids = torch.randint(0, 100, (2, 9))
    with torch.no_grad():
        torch.testing.assert_close(again(ids).logits, model.eval()(ids).logits)


@pytest.mark.slow
def test_the_loaders_script_runs_anywhere(tmp_path: Path) -> None:
    source = tmp_path / "source.py"
    source.write_text(FACTORY)
    opened, project = compressed(f"{source}:make", tmp_path)
    folder = tmp_path / "out"
    export(project, opened.store, "safetensors", folder)
    command = [sys.executable, str(folder / "load.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"inputs": {"x": [2, 8]}, "results": [[2, 3]]}
    (folder / "graph.json").unlink()
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 2 and "Export it again" in done.stderr


@pytest.mark.slow
def test_a_model_without_weights_has_none_to_export(tmp_path: Path) -> None:
    opened = open_any(BERT.format(task="") + "&weights=none", tmp_path / "work", origin=Origin.TYPED)
    with pytest.raises(ExportError, match="without weights"):
        export(opened.project, opened.store, "safetensors", tmp_path / "out")


@pytest.mark.parametrize("ending", ["toml", "json"])
def test_a_recipe_reads_back(tmp_path: Path, ending: str) -> None:
    opened, project = compressed(BERT.format(task=""), tmp_path)
    path = tmp_path / f"recipe.{ending}"
    export(project, opened.store, "recipe", path)
    assert load_recipe(path) == project.recipe


@pytest.mark.parametrize("ending", ["toml", "json"])
def test_every_option_can_be_read(tmp_path: Path, ending: str) -> None:
    """Defaults too: a default that changes later must not change what was done."""
    opened, project = compressed(BERT.format(task=""), tmp_path, {"prune": {}, "quantize_transform_pass": {
        "by": "type", "linear": {"config": {"name": "integer", "weight_width": 8}}}})  # fmt: skip
    path = tmp_path / f"recipe.{ending}"
    export(project, opened.store, "recipe", path)
    data = tomllib.loads(path.read_text()) if ending == "toml" else json.loads(path.read_text())
    prune, quantise = (s["options"] for s in data["steps"])
    assert prune.items() >= {"sparsity": PruneOptions().sparsity, "method": "l1", "scope": "local"}.items()
    rule = quantise["rules"][0]
    assert rule["select"] == {"by": "type", "values": ["linear"]}
    assert rule["formats"]["weight"].startswith("integer(width=8, ")
    assert load_recipe(path) == project.recipe


def test_a_script_names_its_plugins_or_is_refused(tmp_path: Path) -> None:
    opened, project = compressed(BERT.format(task=""), tmp_path, {"prune": {}})
    plugin = tmp_path / "script_plugin.py"
    plugin.write_text("def script_plugin_pass(mg, pass_args={}):\n    return mg, {}\n")
    project = replace(project, recipe=project.recipe.append(Step("script_plugin_pass", Raw({"args": {"a": 1}}))))
    with pytest.raises(ExportError, match="script_plugin_pass, whose plug-in is not loaded"):
        export(project, opened.store, "script", tmp_path / "a.py")
    export(project, opened.store, "recipe", tmp_path / "a.toml")
    load_plugin(plugin)
    try:
        export(project, opened.store, "script", tmp_path / "a.py")
        assert f"PLUGINS = [{str(plugin)!r}]" in (tmp_path / "a.py").read_text()
        assert load_recipe(tmp_path / "a.toml").steps[1].options.args == {"a": 1}
    finally:
        unload_plugins()


def test_a_script_scores_on_the_data_of_the_recipe(tmp_path: Path) -> None:
    recipe = Recipe((Step("calibrate", CalibrateOptions(data="calm.csv", text="says")),))
    opened = open_any(BERT.format(task=""), tmp_path / "work", origin=Origin.TYPED)
    project = replace(opened.project, recipe=recipe)
    written = script_of(project, "a.py")
    assert "DATA = 'calm.csv'" in written and "m.score(args.data, text='says')" in written
    trained = recipe.append(Step("finetune", FinetuneOptions(data="long.csv"))).append(recipe.steps[0])
    assert "DATA = 'long.csv'" in script_of(replace(project, recipe=trained), "a.py")
    none = script_of(opened.project, "a.py")
    assert "DATA = ''" in none and "m.score(args.data)" in none


def test_toml_escapes() -> None:
    odd: dict[str, Any] = {"a": 'quo"te\n\\', "b c": [1, -2.5, True, {"x": float("inf")}], "d": {}}
    assert tomllib.loads(to_toml({"steps": [odd]})) == {"steps": [odd]}
    assert tomllib.loads(to_toml({"steps": []})) == {"steps": []}
    with pytest.raises(ExportError, match=r"options\.folder is empty"):
        to_toml({"steps": [{"options": {"folder": None}}]})


@pytest.mark.slow
def test_a_script_repeats_every_step(tmp_path: Path, root: Path) -> None:
    opened, project = compressed(BERT.format(task=""), tmp_path)
    script, result = tmp_path / "again.py", tmp_path / "again.espalier"
    export(project, opened.store, "script", script)
    command, env = [sys.executable, str(script), str(result)], {"PYTHONPATH": str(root / "roots"), "PATH": ""}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["size_bytes"] == static_score(project.graph).size_bytes
    again = open_any(str(result), tmp_path / "other", origin=Origin.TYPED)
    assert again.project.graph == project.graph and again.project.recipe == project.recipe


PLUGIN = """
def halve_pass(mg, pass_args={}):
    import torch
    with torch.no_grad():
        for module in mg.model.modules():
            if isinstance(module, torch.nn.Linear):
                module.bias.mul_(pass_args.get("factor", 0.5))
    return mg, {}
"""
LONG: dict[str, Any] = {"steps": [
    {"pass": "quantize", "options": {"rules": [{"select": {"by": "type", "values": ["linear"]}, "formats": {
        "weight": "scaled_integer(width=6)", "data_in": "integer(width=8, frac_width=4)"}}]}},
    {"pass": "prune", "options": {"sparsity": 0.3}},
    {"pass": "calibrate", "options": {"data": "demo:digits", "method": "minmax"}},
    {"pass": "halve_pass", "options": {"args": {"factor": 0.5}}},
    {"pass": "bias_correction", "options": {"data": "demo:digits"}},
    {"pass": "finetune", "options": {"data": "demo:digits", "epochs": 1}, "seed": 5},
]}  # fmt: skip


@pytest.mark.slow
def test_a_script_trains_calibrates_and_finds_its_plugin(tmp_path: Path) -> None:
    """Six kinds of steps in another process, without the checkout on its path: every weight comes out the same."""
    plugin, script, result = tmp_path / "halve.py", tmp_path / "again.py", tmp_path / "again.espalier"
    plugin.write_text(PLUGIN)
    load_plugin(plugin)
    try:
        opened, project = compressed("demo:digits-mlp", tmp_path, LONG)
        assert len(project.recipe.active) == 6
        export(project, opened.store, "script", script)
        command = [sys.executable, str(script), str(result)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr
        again = open_any(str(result), tmp_path / "other", origin=Origin.TYPED)
    finally:
        unload_plugins()
    assert again.project.graph == project.graph  # weights by their content
    assert json.loads(done.stdout)["size_bytes"] == static_score(project.graph).size_bytes


def test_formats_by_hand_survive_a_project(tmp_path: Path) -> None:
    """A project file, exported: what was saved is what is handed on."""
    opened, project = compressed(BERT.format(task=""), tmp_path)
    node = next(n for n in project.graph if n.op == "linear")
    graph = project.graph.replace(replace(node, precision={"weight": Precision(Integer(4, 3))}))
    save_project(replace(project, graph=graph), opened.store, tmp_path / "p.espalier")
    again = open_any(str(tmp_path / "p.espalier"), tmp_path / "w2", origin=Origin.TYPED)
    export(again.project, again.store, "safetensors", tmp_path / "out")
    from safetensors.torch import load_file

    value = load_file(tmp_path / "out" / "model.safetensors")[node.weights["weight"]]
    assert len(value.unique()) <= 16
