"""The kinds of files that come from others: sound ones to begin with, and what opens them."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.attack.mutants.mutate import DEEP, NUMBERS, damaged, of_bytes

Act = Callable[[Path, Random], None]
OFTEN = 0.05  # share of the mutants that go through a whole command, where that takes long


@dataclass(frozen=True, slots=True)
class Kind:
    """`sound` writes files, or folders of them, to damage; `act` opens one and uses what it holds.

    `parts`: endings of the files of a folder that are damaged.
    """

    name: str
    sound: Callable[[Path], None]
    act: Act
    parts: tuple[str, ...] = ()

    def mutant(self, seeds: list[Path], folder: Path, rng: Random) -> Path:
        """One damaged copy of a seed, in `folder`."""
        seed = rng.choice(seeds)
        target = folder / seed.name
        if seed.is_file():
            target.write_bytes(damaged(seed.read_bytes(), seed.suffix, rng))
            return target
        shutil.copytree(seed, target)
        files = sorted(p for p in target.rglob("*") if p.is_file() and (not self.parts or p.suffix in self.parts))
        file = rng.choice(files)
        if rng.random() < 0.03:
            file.unlink()
        else:
            file.write_bytes(damaged(file.read_bytes(), file.suffix, rng))
        return target


class Failed(Exception):
    """A command ended in exit 1; its cause is what it raised."""


def command(*words: object) -> None:
    """The command line, in this process: raises its error where the command tells one, Failed where it fails."""
    import io

    import app.cli as cli

    caught: list[BaseException] = []

    def note(error: BaseException, words: list[str]) -> None:
        caught.append(error)

    held, cli.write_crash_report = cli.write_crash_report, note  # type: ignore[assignment]
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.main([str(w) for w in words])
    finally:
        cli.write_crash_report = held
    if code == 1:
        raise Failed from (caught[0] if caught else None)
    if code == 2:
        lines = [line for line in err.getvalue().splitlines() if line.strip()]
        from model.errors import EspalierError

        raise EspalierError(lines[-2] if len(lines) > 1 else "", lines[-1] if lines else "")


# -- projects


def _projects(folder: Path) -> None:
    from dataclasses import replace

    from model.project import save_project
    from tests.model.project_cases import make

    extras = {"studies/a.trials.jsonl": _study_record(), "sweeps/001.jsonl": _sweep_journal(),
              "hardware_modules.json": json.dumps({"version": 1, "modules": {"add": {"text": "a", "original": "b"}}}).encode(),
              "later/thing.bin": b"x" * 100}  # fmt: skip
    for name in ("mlp", "odd"):
        project, store = make(name)
        held = replace(project, extras=extras, reports={"scores": {"options": {}, "kl": {"a": 1.0}}})
        save_project(held, store, folder / f"{name}.espalier")


def _open_project(path: Path, rng: Random) -> None:
    from app.hardware.kept import from_bytes as hardware
    from app.studies.record import records
    from model.build import build
    from model.errors import EspalierError
    from model.project import load_project, save_project
    from model.weights import WeightStore
    from passes.sweep.journal import journals
    from verilog.edited import from_bytes as modules

    store = WeightStore(path.parent / "work")
    project = load_project(path, store)
    extras = project.extras
    records(extras)
    journals(extras)
    for member, read in (("hardware_modules.json", modules), ("hardware.json", hardware)):
        if member in extras:
            with contextlib.suppress(EspalierError):
                read(extras[member])
    build(project.graph, store)
    save_project(project, store, path.with_name("again.espalier"))
    if rng.random() < OFTEN:
        command("report", path)


# -- packed models, folders of Hugging Face, adapters, torch.export


def _packed(folder: Path) -> None:
    from model.formats.integer import Integer
    from model.packed.file import write_packed
    from model.recipe import Recipe, Step
    from model.source import SourceInfo
    from passes.base import Context
    from passes.replay import replay
    from passes.select import Select
    from passes.transform.prune import PruneOptions
    from passes.transform.quantize import QuantizeOptions, Rule
    from tests.model.zoo import case

    for name, width in (("mlp", 4), ("bert", 6)):
        held = case(name)
        rule = Rule(Select("type", ("linear",)), {"weight": Integer(width, 3), "data_in": Integer(8, 4)})
        steps = Step("quantize", QuantizeOptions((rule,))), Step("prune", PruneOptions(0.4))
        graph = replay(held.graph, Recipe(steps), Context(held.store)).graph
        write_packed(graph, held.store, SourceInfo("/nowhere", name), folder / f"{name}.packed.safetensors")


def _open_model(path: Path, rng: Random) -> None:
    from model.build import build
    from model.opening import open_any
    from model.trust import Origin

    opened = open_any(str(path), path.parent / "work", cached=False, origin=Origin.TYPED)
    build(opened.project.graph, opened.store)


def _folders(folder: Path) -> None:
    import torch
    import transformers

    torch.manual_seed(0)
    sizes: dict[str, Any] = {"vocab_size": 50, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
                             "intermediate_size": 12, "max_position_embeddings": 32}  # fmt: skip
    model = transformers.BertForSequenceClassification(transformers.BertConfig(**sizes))
    model.save_pretrained(folder / "bert")
    gpt = transformers.GPT2Config(vocab_size=50, n_embd=8, n_layer=1, n_head=2, n_positions=32)
    transformers.GPT2LMHeadModel(gpt).save_pretrained(folder / "gpt2")
    from model.demos import RESOURCES

    for name in ("tokenizer.json", "tokenizer_config.json"):
        if (RESOURCES / "reviews" / name).exists():
            shutil.copyfile(RESOURCES / "reviews" / name, folder / "bert" / name)


def _open_folder(path: Path, rng: Random) -> None:
    from model.data.naming import model_names
    from model.data.tokens import longest, open_tokenizer
    from model.source import load_source
    from model.trust import Origin

    model_names(str(path))
    longest(path)
    if (path / "tokenizer.json").exists():
        from model.errors import DataError

        with contextlib.suppress(DataError):
            open_tokenizer(path)(["a good film"], 16)
    if rng.random() < 3 * OFTEN:
        command("trace", path, "--no-cache")
    else:
        load_source(str(path), origin=Origin.TYPED)


def _adapters(folder: Path) -> None:
    from passes.lowrank.peft_write import write_peft
    from passes.select import Select
    from passes.transform.lora import LoraOptions, Rank
    from tests.passes.lowrank.lora_cases import case, step, trained

    for name in ("mlp", "bert"):
        held = case(name)
        ranks = (Rank(Select("regex", ("query", "second")), 2),)
        graph = trained(step(held.graph, held, "lora", LoraOptions(3, 5.0, 0.1, ranks=ranks))[0], held)
        (folder / name).mkdir()
        write_peft(graph, held.store, folder / name, None, {})


def _load_adapter(path: Path, rng: Random) -> None:
    from passes.transform.load_adapter import LoadAdapterOptions
    from tests.passes.lowrank.lora_cases import case, step

    held = case(path.name)
    graph, _ = step(held.graph, held, "load_adapter", LoadAdapterOptions(str(path)))
    held.build(graph)


def _programs(folder: Path) -> None:
    from tests.attack.pt2_files import sound

    sound(folder / "net.pt2")


def _open_program(path: Path, rng: Random) -> None:
    from model.source import load_source
    from model.trust import Origin

    if rng.random() < OFTEN:
        command("trace", path, "--no-cache")
    else:
        load_source(str(path), origin=Origin.TYPED)


# -- what people write


RECIPE: dict[str, Any] = {"steps": [
    {"pass": "quantize", "options": {"rules": [{"select": {"by": "type", "values": ["linear"]}, "formats": {
        "weight": "integer(width=6, frac_width=4)", "data_in": {"name": "integer", "width": 8, "frac_width": 4}}}]}},
    {"pass": "prune", "options": {"sparsity": 0.4, "method": "l1", "scope": "global"}, "seed": 3},
    {"pass": "remove_dropout", "enabled": False},
]}  # fmt: skip
TOML = """
[[steps]]
pass = "prune"
seed = 3
[steps.options]
sparsity = 0.5
method = "random"
[[steps]]
pass = "quantize"
[[steps.options.rules]]
select = {by = "regex", values = ["^first"]}
formats = {weight = "mxint", bias = "float"}
"""
LABS = {
    "quantize_transform_pass": {
        "by": "type", "default": {"config": {"name": None}},
        "linear": {"config": {"name": "integer", "data_in_width": 8, "data_in_frac_width": 4, "weight_width": 8,
                              "weight_frac_width": 4, "bias_width": 8, "bias_frac_width": 4}}},
    "prune_transform_pass": {"weight": {"sparsity": 0.5, "method": "l1-norm", "scope": "local"}},
}  # fmt: skip


def _recipes(folder: Path) -> None:
    (folder / "a.json").write_text(json.dumps(RECIPE))
    (folder / "b.toml").write_text(TOML)
    (folder / "c.json").write_text(json.dumps(LABS))
    (folder / "d.py").write_text(f"options = {LABS!r}\n")


def _run_recipe(path: Path, rng: Random) -> None:
    from passes.base import Context
    from passes.config import load_recipe, recipe_to_dict
    from passes.pasted import load_recipe_file
    from passes.replay import replay
    from tests.model.zoo import case

    recipe = load_recipe_file(path)
    if path.suffix != ".py":
        recipe = load_recipe(path)
    json.dumps(recipe_to_dict(recipe))
    held = case("mlp")
    replay(held.graph, recipe, Context(held.store))


SEARCH = """
study = "s"
goals = ["accuracy", {figure = "weight_bits", weight = 2.0}]
within = ["size_bytes < 1000"]
sampler = "random"
trials = 12
[[space]]
per = "type"
select = {by = "all"}
ports = ["weight"]
values = "integer(width=2|4|6|8)"
[[space]]
kind = "option"
key = "prune.sparsity"
values = "0.1:0.9:0.2"
[score]
data = "demo:digits-mlp"
limit = 60
[[steps]]
pass = "prune"
[steps.options]
sparsity = 0.5
"""


def _searches(folder: Path) -> None:
    import tomllib

    from app.commands.search_files import TEMPLATES

    (folder / "a.toml").write_text(SEARCH)
    (folder / "b.json").write_text(json.dumps(tomllib.loads(SEARCH)))
    for path in sorted(TEMPLATES.glob("*.toml")):
        shutil.copyfile(path, folder / path.name)


def _prepare(path: Path, rng: Random) -> None:
    from model.codec import encode
    from passes.base import Context
    from passes.replay import Memo
    from passes.search.prepare import prepared as prepare
    from passes.search.search import Search
    from passes.search.spec_file import filled, load_search, search_to_dict
    from tests.model.zoo import case

    recipe, spec = load_search(path)
    search_to_dict(spec)
    held = case("mlp")
    search = Search(spec, filled(recipe, spec.score), held.graph)
    json.dumps(encode(spec))
    prepare(search, Context(held.store), Memo())


SWEEP: dict[str, Any] = {**RECIPE, "over": "prune.sparsity=0.1:0.9:0.1", "along": ["quantize.weight.width=4:12:1"],
                         "variants": ["prune.method=l1,random"], "seeds": 2, "title": "t",
                         "score": {"data": "demo:digits-mlp", "limit": 20}}  # fmt: skip
SWEEP_TOML = 'over = "prune.sparsity=0.1:0.9:0.1"\nvariants = "prune.method=l1,random"\nseeds = 3\n' + TOML


def _sweeps(folder: Path) -> None:
    (folder / "a.json").write_text(json.dumps(SWEEP))
    (folder / "b.toml").write_text(SWEEP_TOML)


def _points(path: Path, rng: Random) -> None:
    from passes.sweep.spec import load_wish, made
    from passes.sweep.sweep import points

    recipe, wish = load_wish(path)
    if wish.varies:
        points(made(recipe, wish, wish.score))


# -- journals


def _spec() -> tuple[Any, Any, Any]:
    from passes.search.expand import expand
    from passes.search.spec_file import load_search
    from tests.model.zoo import case

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.toml"
        path.write_text(SEARCH)
        recipe, spec = load_search(path)
    held = case("mlp")
    return spec, recipe, expand(spec, held.graph, recipe)


def _study_record() -> bytes:
    from app.studies.record import Record, dump
    from passes.search.trial import Trial

    spec, recipe, space = _spec()
    params = {c.name: c.values[0] for c in space.choices}
    trials = tuple(Trial(n, "complete", params, (0.5 + n / 10, 4.0), {"accuracy": 0.5, "weight_bits": 4.0}, ((20, 0.4),),
                         {"size_bytes": -1.0}, 1e9 + n, 1.5, "w", "random", losses=((1, 0.5),))
                   for n in range(4))  # fmt: skip
    return dump(Record(spec, recipe, space, trials, "key", {"accuracy": 0.9}, {"name": "x"}))


def _records(folder: Path) -> None:
    (folder / "study.trials.jsonl").write_bytes(_study_record())


def _read_record(path: Path, rng: Random) -> None:
    from app.commands.search_charts import study_of
    from app.commands.search_files import to_csv
    from app.studies.record import load
    from passes.search.goals import best, wanted
    from passes.search.space import Space

    held = load(path.read_bytes())
    to_csv(held.trials)
    study_of(held.spec, held.recipe, held.space or Space(), held.trials)
    best(held.trials, wanted(held.spec))


def _journals(folder: Path) -> None:
    import optuna

    from passes.search.records import ABOUT, about
    from passes.search.storage import journal_url, open_storage

    spec, recipe, space = _spec()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    for name in ("a", "b"):
        storage = open_storage(journal_url(folder / f"{name}.journal"))
        study = optuna.create_study(storage=storage, study_name="s", directions=["maximize", "minimize"],
                                    sampler=optuna.samplers.RandomSampler(seed=1))  # fmt: skip
        study.set_user_attr(ABOUT, about(spec, recipe, space, "model"))
        study.set_user_attr("coded", {} if name == "a" else {"width": ["2", "4"]})
        for number in range(4):
            trial = study.ask()
            for choice in space.choices:
                trial.suggest_categorical(choice.name, choice.values)
            trial.suggest_float("x", 0, 1)
            for key, value in (("figures", {"accuracy": 0.5, "weight_bits": 4}), ("violation", {"size_bytes": -1}),
                               ("worker", "w"), ("seconds", 1.5), ("losses", [[1, 0.5]])):  # fmt: skip
                trial.set_user_attr(key, value)
            if number < 3:
                study.tell(trial, [0.5 + number / 10, 4.0])
    for lock in folder.glob("*.held"):
        lock.unlink()


def _read_journal(path: Path, rng: Random) -> None:
    from app.commands.search_charts import _groups, _read

    _groups(_read(str(path)))


def _sweep_journal() -> bytes:
    from model.recipe import Recipe
    from passes.sweep.journal import Journal, dump
    from passes.sweep.outcome import BASELINE, Outcome
    from passes.sweep.spec import load_wish, made
    from passes.sweep.sweep import points

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.json"
        path.write_text(json.dumps(SWEEP))
        recipe, wish = load_wish(path)
    sweep = made(Recipe(recipe.steps), wish, wish.score)
    score = {"accuracy": 0.5, "loss": 1.0, "size_bytes": 100, "n": 20, "hits": "ff"}
    outcomes = [Outcome("k", p.variant, p.x, p.seed, score, seconds={"prune": 0.1}) for p in points(sweep)[:6]]
    return dump(Journal(sweep, (Outcome("b", BASELINE, 0, 0, score), *outcomes,
                                Outcome("e", 0, 5, 0, {}, "It failed.", "Try again."))))  # fmt: skip


def _sweep_journals(folder: Path) -> None:
    (folder / "sweep.jsonl").write_bytes(_sweep_journal())


def _read_sweep(path: Path, rng: Random) -> None:
    from passes.sweep import journal
    from passes.sweep.outcome import baseline_of, change_of, curves, figures_of, mean_rows, rows
    from passes.sweep.sweep import points

    held = journal.load(path.read_bytes().decode("utf-8", "replace"))
    journal.read(path)
    points(held.sweep)
    figures_of(held.outcomes)
    for figure in ("accuracy", "size_bytes"):
        curves(held.sweep, held.outcomes, figure)
    rows(held.sweep, held.outcomes)
    mean_rows(held.sweep, held.outcomes)
    baseline_of(held.outcomes)
    for outcome in held.outcomes:
        change_of(outcome, held.outcomes, held.sweep)


# -- results, tables, plug-ins, formats


def _results(folder: Path) -> None:
    from kernels.bench.ceilings import Ceilings
    from kernels.bench.results import Results, Row, save

    rows = tuple(Row("softmax", v, "cpu", "float32", {"m": 64 * n, "n": 128}, 1e-3 * n, 9e-4, 8e-4, 0.02, 0.5, 20, 1000,
                     2000, 1500, 1.5, "torch", 1e-7, 1e-8, True, 0.4) for v in ("torch", "triton") for n in (1, 2))  # fmt: skip
    none = Row("softmax", "triton", "cpu", "float32", {"m": 1, "n": 1}, problem="no device", others=0.2)
    for name in ("a", "b"):
        machine = {"name": f"machine {name}", "device": "cpu", "cores": 2}
        results = Results(machine, "2026-11-25", Ceilings("cpu", 20.0, {"float32": 0.5}), (*rows, none), {"seed": 0})
        save(results, folder / f"{name}.json")


def _compare(path: Path, rng: Random) -> None:
    other = path.with_name("other.json")
    seeds: list[Path] = []
    if not other.exists():
        with tempfile.TemporaryDirectory() as folder:
            _results(Path(folder))
            shutil.copyfile(Path(folder) / "b.json", other)
        seeds.append(other)
    command("kernels", "--compare", path)
    command("kernels", "--compare", path, other)


ROWS = [(f"the film number {n} was {w}", c) for n, (w, c) in enumerate([("good", "yes"), ("bad", "no")] * 8)]


def _tables(folder: Path) -> None:
    import pandas

    lines = [("text", "label"), *ROWS]
    (folder / "a.csv").write_text("".join(f'"{t}",{c}\n' for t, c in lines))
    (folder / "b.tsv").write_text("".join(f"{t}\t{c}\n" for t, c in lines))
    (folder / "c.json").write_text(json.dumps([{"text": t, "label": c} for t, c in ROWS]))
    (folder / "d.jsonl").write_text("".join(json.dumps({"text": t, "label": c}) + "\n" for t, c in ROWS))
    pandas.DataFrame(ROWS, columns=["text", "label"]).to_parquet(folder / "e.parquet")
    (folder / "f.csv").write_text("".join(f"{t};{c}\n" for t, c in lines))


def _read_table(path: Path, rng: Random) -> None:
    from model.data.base import LoadOptions
    from model.data.glance import glance
    from model.data.local import find
    from model.data.tables import read_rows
    from model.errors import EspalierError

    with contextlib.suppress(EspalierError):
        glance(str(path))
    find(path)
    read_rows(path, LoadOptions())


PLUGIN = '''
"""A plug-in: a pass, a labs' pass and a format."""
from dataclasses import dataclass
from model.formats.base import Format
from model.registry import FORMATS
from passes.base import Report, transform


@dataclass(frozen=True, slots=True)
class Options:
    level: float = 0.5


@transform("halves", "Halves.", Options)
def halves(graph, options, context):
    return graph, Report("halves")


def mine_pass(mg, pass_args={}):
    return mg, {}
'''


def _plugins(folder: Path) -> None:
    from tests.passes import test_plugins

    (folder / "plain.py").write_text("def mine_pass(mg, pass_args={}):\n    return mg, {}\n")
    (folder / "typed.py").write_text(PLUGIN)
    _ = test_plugins


def _load_plugin(path: Path, rng: Random) -> None:
    from passes.plugins import load_plugin, unload_plugins

    try:
        load_plugin(path)
    finally:
        unload_plugins()


def _formats(folder: Path) -> None:
    from model.registry import FORMATS

    texts = [str(cls()) for _, cls in FORMATS.items()]
    (folder / "formats.txt").write_text("\n".join(texts))


def _parse_format(path: Path, rng: Random) -> None:
    lines = path.read_bytes().decode("utf-8", "replace").split("\n")
    text = _spoiled(rng.choice(lines), rng).replace("\0", "")
    command("formats", f" {text}" if text.startswith("-") else text)


def _spoiled(text: str, rng: Random) -> str:
    import re

    numbers = list(re.finditer(r"-?\d+", text))
    match rng.randrange(6):
        case 0 | 1 if numbers:
            place = rng.choice(numbers)
            value = rng.choice((*NUMBERS, "1000", "65", "-3", "1000000", "None", "true", "2.5", "33"))
            return text[: place.start()] + value + text[place.end() :]
        case 2:
            return text.replace(")", f", {rng.choice(('x=1', 'width=4', 'scale=(', '=', '1'))})")
        case 3:
            return text + "(" * rng.choice(DEEP)
        case 4:
            return of_bytes(text.encode(), rng).decode("utf-8", "replace")
        case _:
            return text


KINDS: dict[str, Kind] = {k.name: k for k in (
    Kind("projects", _projects, _open_project),
    Kind("packed", _packed, _open_model),
    Kind("folders", _folders, _open_folder, (".json", ".safetensors")),
    Kind("adapters", _adapters, _load_adapter, (".json", ".safetensors")),
    Kind("pt2", _programs, _open_program),
    Kind("recipes", _recipes, _run_recipe),
    Kind("searches", _searches, _prepare),
    Kind("sweeps", _sweeps, _points),
    Kind("study records", _records, _read_record),
    Kind("study journals", _journals, _read_journal),
    Kind("sweep journals", _sweep_journals, _read_sweep),
    Kind("kernel results", _results, _compare),
    Kind("tables", _tables, _read_table),
    Kind("plug-ins", _plugins, _load_plugin),
    Kind("formats", _formats, _parse_format),
)}  # fmt: skip


def prepared(kind: Kind, folder: Path) -> list[Path]:
    """Sound files of a kind; each opens."""
    folder.mkdir(parents=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind.sound(folder)
    return sorted(folder.iterdir())


def known(names: Iterable[str]) -> list[Kind]:
    """Kinds by name; all where none is named."""
    return [KINDS[n] for n in names] or list(KINDS.values())
