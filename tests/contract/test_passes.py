"""Every registered pass keeps its contract: options that travel, graphs left alone, reports that can be shown.

New passes are taken up by registering; options that show more than the defaults go into EXAMPLES.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import subprocess
import sys
import typing
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from espalier.model.document.codec import decode, encode, hints
from espalier.model.document.graph_json import fingerprint
from espalier.model.document.project import keys_of, step_from_json, step_to_json
from espalier.model.document.recipe import Step
from espalier.model.errors import EspalierError
from espalier.model.formats.integer import Integer
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.graph.check import check
from espalier.model.graph.graph import Graph
from espalier.model.registry import PASSES
from espalier.passes.base import Context, PassSpec, Report, run_step
from espalier.passes.choices.lora import LoraOptions, Rank
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.prune_structured import PruneStructuredOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.recipes.config import decode_options
from espalier.passes.select import Select
from espalier.passes.transform.calibrate import CalibrateOptions
from espalier.passes.transform.fuse_lora import FuseLoraOptions
from espalier.passes.transform.learn_scales import LearnScalesOptions
from espalier.passes.transform.replace_linear import ReplaceLinearOptions
from tests.model.zoo import case
from tests.patience import PATIENCE

ALL = tuple(PASSES)
LINEAR = Rule(Select("type", ("linear",)), {"weight": Integer(6, 4), "data_in": Integer(8, 4),
                                           "bias": ScaledInteger(8)})  # fmt: skip
EXAMPLES: dict[str, tuple[Any, ...]] = {
    "quantize": (QuantizeOptions((LINEAR,)),),
    "calibrate": (CalibrateOptions(method="entropy"), CalibrateOptions(method="percentile", ports=("bias",))),
    "learn_scales": (LearnScalesOptions(ports=("weight", "bias")),),
    "fuse_lora": (FuseLoraOptions(untie=True),),
    "prune_structured": (PruneStructuredOptions("heads", 0.5, score="random"), PruneStructuredOptions("channels")),
    "replace_linear": (ReplaceLinearOptions(Select("name", ("mix",))),),
    "prune": (PruneOptions(0.5), PruneOptions(0.3, "random", "global")),
    "lora": (LoraOptions(0), LoraOptions(3, 1.0, 0.5, True, Select(), (Rank(Select(), 2),), train_head=True)),
}
GRAPHS = (
    "mlp",
    "tied",
    "image",
    "attention",
    "odd",
    "bert",
    "choosy",
    "functions",
    "mlp-chosen",
    "mlp-hollow",
    "tied-adapted",
)


def spec(name: str) -> PassSpec:
    found: PassSpec = PASSES.get(name)
    return found


def options(name: str) -> tuple[Any, ...]:
    return (spec(name).options(), *EXAMPLES.get(name, ()))


@cache
def graph_of(name: str) -> Graph:
    """A graph of the zoo; "-chosen" with formats and masks, "-adapted" with LoRA, "-hollow" without weights."""
    held = case(name.partition("-")[0])
    graph = held.graph
    if name.endswith("-hollow"):
        return graph.with_weights({k: dataclasses.replace(w, key=None) for k, w in graph.weights.items()})
    if name.endswith("-adapted"):
        return run_step(graph, Step("lora", LoraOptions()), Context(held.store)).graph
    if name.endswith("-chosen"):
        for step in (Step("quantize", EXAMPLES["quantize"][0]), Step("prune", PruneOptions(0.4))):
            graph = run_step(graph, step, Context(held.store)).graph
    return graph


def context(name: str, seed: int = 0) -> Context:
    held = case(name.partition("-")[0])
    return Context(held.store, seed, callables=held.traced.callables)


# -- what a pass is


@pytest.mark.parametrize("name", ALL)
def test_a_pass_describes_itself(name: str) -> None:
    found = spec(name)
    assert found.name == name == name.lower() and name.isidentifier()
    assert found.kind in ("analysis", "transform") and isinstance(found.instant, bool)
    assert found.title and found.title[0].isupper() and len(found.doc) > 10
    assert callable(found.run)


@pytest.mark.parametrize("name", ALL)
def test_options_are_frozen_values_that_can_be_made_without_thought(name: str) -> None:
    cls = spec(name).options
    assert dataclasses.is_dataclass(cls) and cls.__doc__
    made = cls()
    assert made == cls() and cls.__dataclass_params__.frozen  # type: ignore[attr-defined]
    for field in dataclasses.fields(cls):
        assert field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING, field.name
        kind = hints(cls)[field.name]
        if typing.get_origin(kind) is None and kind in (int, float, str, bool):
            assert isinstance(getattr(made, field.name), kind), field.name


@pytest.mark.parametrize("name", ALL)
def test_options_travel_as_json(name: str) -> None:
    for made in options(name):
        data = json.loads(json.dumps(encode(made), allow_nan=False))
        assert decode(spec(name).options, data) == decode_options(name, data) == made
        step = Step(name, made, seed=7, enabled=False)
        assert step_from_json(json.loads(json.dumps(step_to_json(step)))) == step


@pytest.mark.parametrize("name", ALL)
def test_unknown_options_are_named(name: str) -> None:
    if getattr(spec(name).options, "FREE", False):
        return
    with pytest.raises(EspalierError, match=r"options\.no_such_option is not an option"):
        step_from_json({"pass": name, "options": {"no_such_option": 1}})


# -- what a pass does


def attempt(graph: str, name: str, made: Any, seed: int = 0) -> tuple[Graph, Report] | None:
    """The result, or None where the pass tells the user why it cannot."""
    try:
        result = run_step(graph_of(graph), Step(name, made, seed), context(graph))
    except EspalierError as error:
        assert error.message and error.hint
        return None
    return result.graph, result.report


# It starts processes whatever the model is; tested in passes/distributed/test_measured_links.py.
OF_MACHINE = ("shard_links",)


@pytest.mark.slow
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", [n for n in ALL if n not in OF_MACHINE])
def test_it_works_or_says_why_not(name: str, graph: str) -> None:
    before = graph_of(graph)
    mark, nodes = fingerprint(before), dict(before.nodes)
    for made in options(name):
        kept = copy.deepcopy(made)
        found = attempt(graph, name, made)
        assert made == kept and fingerprint(before) == mark and before.nodes == nodes
        assert all(case(graph.partition("-")[0]).store.get(k).key() == k for k in keys_of(before))
        if found is None:
            continue
        after, report = found
        assert (after is before) if spec(name).kind == "analysis" else isinstance(after, Graph)
        assert not [p for p in check(after) if p.severity == "error"]
        assert all(k in case(graph.partition("-")[0]).store for k in keys_of(after))
        assert report.pass_name == name
        assert all(row.get("node") in (None, *before.nodes, *after.nodes) for row in report.rows)
        json.dumps([report.rows, report.summary], allow_nan=False)


# Tested with data in test_peft.py, test_evaluate.py, test_finetune*.py, test_recovery_*.py and analysis/.
NEED_DATA = (
    "activations", "allocated", "change_divergence", "data", "data_rows", "divergence", "predictions", "evaluate",
    "finetune", "finetune_estimate", "gptq", "smoothquant", "bias_correction", "load_adapter", "sensitivity",
    "take_weights", "layer_latency", "compile", "generate", "generation_scores", "generated_texts",
    "awq", "autoround",
)  # fmt: skip
# Tested with processes in analysis/test_shard_run.py.
NEED_PROCESSES = ("shard_run",)
# Tested on Llamas, whose norms are RMSNorm: test_recovery_rotate.py.
NEED_STREAM = ("rotate", "kv_cache")
# Tested on models whose layers have formats that these need: tests/verilog, app/test_cli_emit.py, test_pack_mx.py,
# test_recovery_hqq.py.
NEED_FORMATS = ("hqq", "hardware", "parallelize", "balance_parallelism", "balance_front", "pack_mx",
                "hardware_functions")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_it_can_work_on_something(name: str) -> None:
    if name in NEED_DATA + NEED_PROCESSES + NEED_STREAM + NEED_FORMATS + OF_MACHINE:
        return
    assert any(attempt(g, name, made) for g in GRAPHS for made in options(name))


TIMED = ("profile", "compile", "memory")  # they tell what this machine took


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in ALL if n not in TIMED + OF_MACHINE])
def test_equal_seeds_give_equal_results(name: str) -> None:
    for graph in ("image", "mlp-chosen"):
        for made in options(name):
            one, other = attempt(graph, name, made, 3), attempt(graph, name, made, 3)
            assert one == other


def test_instant_passes_need_no_torch(root: Path, tmp_path: Path) -> None:
    """The window runs them in its own process, where torch must not be loaded."""
    file = tmp_path / "graph.json"
    from espalier.model.document.graph_json import graph_to_json

    file.write_text(json.dumps(graph_to_json(graph_of("bert"))))
    code = (
        "import json, sys\n"
        "from pathlib import Path\n"
        "from espalier.model.document.graph_json import graph_from_json\n"
        "from espalier.model.document.recipe import Step\n"
        "from espalier.model.registry import PASSES\n"
        "from espalier.model.store.weights import WeightStore\n"
        "from espalier.passes.base import Context, run_step\n"
        f"graph = graph_from_json(json.loads(Path({str(file)!r}).read_text()))\n"
        "names = [n for n, s in PASSES.items() if s.instant]\n"
        "for name in [n for n in names if n != 'kv_cache']:\n"
        "    run_step(graph, Step(name, PASSES.get(name).options()), Context(WeightStore(Path('.'))))\n"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules\n"
        "print(*names)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    assert {"quantize", "remove_dropout", "count_dropout"} <= set(done.stdout.split())
