"""Recipes in MASE's dicts: what each key stands for, and typos named with their path."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import EspalierError, FormatError, OptionsError
from espalier.model.formats.base import parse_format
from espalier.model.formats.integer import Integer
from espalier.model.registry import FORMATS
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.prune_activations import PruneActivationsOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.mase.formats import port_formats
from espalier.passes.recipes.config import load_recipe, recipe_to_dict
from espalier.passes.select import Select
from espalier.passes.sharding.options import ShardPlanOptions
from tests.strategies import json_values

INT84 = {"name": "integer", "data_in_width": 8, "data_in_frac_width": 4, "weight_width": 8, "weight_frac_width": 4,
         "bias_width": 8, "bias_frac_width": 4}  # fmt: skip
TUTORIAL_3 = {"by": "type", "default": {"config": {"name": None}}, "linear": {"config": INT84}}
TUTORIAL_4 = {"weight": {"sparsity": 0.5, "method": "l1-norm", "scope": "local"},
              "activation": {"sparsity": 0.0, "method": "l1-norm", "scope": "local"}}  # fmt: skip
PORTS = {p: Integer(8, 4) for p in ("data_in", "weight", "bias")}
LINEAR = Rule(Select("type", ("linear",)), PORTS)  # type: ignore[arg-type]


def options(name: str, data: dict[str, Any]) -> Any:
    (step,) = load_recipe({name: data}).steps
    return step.options


def test_tutorial_3() -> None:
    assert options("quantize", TUTORIAL_3) == QuantizeOptions((LINEAR,))


def test_tutorial_4() -> None:
    assert options("prune", TUTORIAL_4) == PruneOptions(0.5, "l1", "local")
    random = {"weight": {"sparsity": 0.25, "method": "random", "scope": "global"}}
    assert options("prune", random) == PruneOptions(0.25, "random", "global")


def test_activations_are_a_step_of_their_own() -> None:
    both = {"weight": {"sparsity": 0.5}, "activation": {"sparsity": 0.25, "method": "l1-norm", "scope": "local"}}
    weights = Step("prune", PruneOptions(0.5), 4)
    kept = Step("prune_activations", PruneActivationsOptions(sparsity=0.25), 4)
    for data in ({"prune_transform_pass": both}, {"steps": [{"pass": "prune_transform_pass", "options": both}]}):
        assert load_recipe(data, seed=4) == Recipe((weights, kept))
    alone = {"prune": {"activation": {"sparsity": 0.25}}}
    assert load_recipe(alone, seed=4) == Recipe((kept,))
    off = {"steps": [{"pass": "prune", "options": both, "enabled": False}]}
    assert [s.enabled for s in load_recipe(off).steps] == [False, False]


@pytest.mark.parametrize(
    "entry, want",
    [
        ({"method": "random", "scope": "global"}, PruneActivationsOptions(sparsity=0.5, method="random")),
        ({"method": "l1-norm", "scope": "global"},
         PruneActivationsOptions(sparsity=0.5, pattern="threshold", scope="global")),
    ],
)  # fmt: skip
def test_scopes_of_activations(entry: dict[str, Any], want: PruneActivationsOptions) -> None:
    recipe = load_recipe({"prune": {"weight": {"sparsity": 0.1}, "activation": {"sparsity": 0.5, **entry}}})
    assert recipe.steps[1].options == want


@pytest.mark.parametrize("quantize", ["quantize_transform_pass", "quantize"])
@pytest.mark.parametrize("prune", ["prune_transform_pass", "prune"])
def test_a_pipeline_by_either_name(quantize: str, prune: str) -> None:
    recipe = load_recipe({quantize: TUTORIAL_3, prune: TUTORIAL_4}, seed=9)
    assert recipe == Recipe((Step("quantize", QuantizeOptions((LINEAR,)), 9), Step("prune", PruneOptions(0.5), 9)))


@pytest.mark.parametrize("by, ours", [*((b, b) for b in ("type", "name", "regex", "module")), ("regex_name", "regex")])
def test_by_is_the_selection(by: str, ours: Any) -> None:
    rules = options("quantize", {"by": by, "bert_encoder": {"config": INT84}}).rules
    assert rules[0].select == Select(ours, ("bert_encoder",))


def test_the_default_comes_first_and_what_is_named_wins() -> None:
    four, eight = ({"config": {"name": "integer", "weight_width": w}} for w in (4, 8))
    data = {"by": "type", "conv2d": {"config": {"name": None}}, "default": four, "linear": eight}
    rules = options("quantize", data).rules
    assert rules[0] == Rule(Select("all"), {"weight": Integer(4, 4)})
    assert rules[1] == Rule(Select("type", ("conv2d",)), dict.fromkeys(("data_in", "weight", "bias", "data_out")))
    assert rules[2] == Rule(Select("type", ("linear",)), {"weight": Integer(8, 4)})


def test_config_may_be_left_out() -> None:
    assert options("quantize", {"by": "type", "linear": INT84}) == QuantizeOptions((LINEAR,))


def test_keys_are_port_and_parameter() -> None:
    config = {"name": "integer", "data_in_width": 4, "data_out_frac_width": 7, "weight_signed": False}
    want = {"data_in": Integer(4, 4), "data_out": Integer(8, 7), "weight": Integer(8, 4, False)}
    assert port_formats(config, "") == want
    assert port_formats({"name": "integer", "bias_rounding": "floor"}, "") == {"bias": Integer(8, 4, True, "floor")}


# Each row: a dict of MASE, and the format that data_in, weight and bias have.
ALL = ("data_in", "weight", "bias")


ROWS: list[tuple[str, dict[str, Any], str]] = [
    ("minifloat_denorm", {"width": 8, "exponent_width": 4, "exponent_bias": 7},
     "minifloat_denorm(width=8, exponent_width=4, exponent_bias=7)"),
    ("minifloat_ieee", {"width": 8, "exponent_width": 3, "exponent_bias": 3},
     "minifloat_ieee(width=8, exponent_width=3, exponent_bias=3)"),
    ("log", {"width": 8, "exponent_bias": 7}, "log(width=8, exponent_bias=7)"),
    ("block_fp", {"width": 8, "exponent_width": 4, "block_size": [16]},
     "block_fp(width=8, exponent_width=4, block=16)"),
    ("block_fp", {"exponent_width": 4, "exponent_bias": None, "block_size": [1, 32], "skip_first_dim": True},
     "block_fp(width=8, exponent_width=4, block=32)"),
    ("LinearBlockFP", {"width": 8, "exponent_width": 4, "exponent_bias": 15, "block_size": [16]},
     "block_fp(width=8, exponent_width=4, block=16, exponent_bias=15)"),
    ("integer_floor", {"width": 8, "frac_width": 4}, "integer(width=8, frac_width=4, rounding=floor)"),
    ("block_minifloat", {"width": 8, "exponent_width": 3, "exponent_bias_width": 4, "block_size": [2, 32]},
     "block_minifloat(width=8, exponent_width=3, exponent_bias_width=4, block=32, rows=2)"),
    ("block_log", {"width": 8, "exponent_bias_width": 4, "block_size": 16},
     "block_log(width=8, exponent_bias_width=4, block=16)"),
    ("binary", {"bipolar": True, "stochastic": True, "binary_training": True}, "binary(bipolar=true, stochastic=true)"),
    ("binary", {"width": 1, "bipolar": False}, "binary(bipolar=false)"),
    ("binary_scaling", {"binary_training": True, "stochastic": False, "bipolar": True}, "binary_scaled"),
    ("binary_residual", {"levels": 3, "binary_training": True}, "binary_residual(levels=3)"),
    ("LinearBinaryResidualSign", {"levels": 3, "residual_sign": True, "stochastic": False, "bipolar": True},
     "binary_residual(levels=3)"),
    ("binary_residual", {"levels": 3, "residual_sign": False}, "binary_residual(levels=1)"),
    ("ternary", {"threshold": 0.5}, "ternary(threshold=0.5)"),
    ("ternary", {"width": 2, "scaling_factor": True, "mean": None, "median": None, "max": None}, "ternary"),
    ("mxint", {"width": 4, "block_size": 16, "exponent_width": 8}, "mxint(width=4, block=16)"),
    ("mxfp", {"element": "e2m1", "block_size": 16}, "mxfp(element=e2m1, block=16)"),
    ("mxfp", {"exponent_width": 5, "frac_width": 2, "block_size": 32}, "mxfp(element=e5m2, block=32)"),
    ("scaled_integer", {"width": 4, "granularity": "per_channel"}, "scaled_integer(width=4, granularity=channel)"),
    ("nvfp4", {"block_size": 8}, "nvfp4(block=8)"),
]  # fmt: skip


@pytest.mark.parametrize("name, values, want", ROWS)
def test_every_formats_parameters_map_one_to_one(name: str, values: dict[str, Any], want: str) -> None:
    config = {"name": name, **{f"{p}_{k}": v for p in ALL for k, v in values.items()}}
    assert port_formats(config, "") == dict.fromkeys(ALL, parse_format(want))
    assert port_formats({"name": name, **values}, "") == dict.fromkeys(ALL, parse_format(want))  # keys for all ports


@pytest.mark.parametrize("name", list(FORMATS))
def test_a_format_by_its_name_alone_has_its_defaults(name: str) -> None:
    want = dict.fromkeys(ALL, parse_format(name))
    assert port_formats({"name": name}, "") == want
    for alias in FORMATS.get(name).aliases:
        found = port_formats({"name": alias}, "")
        assert set(found) == set(ALL) and {type(f) for f in found.values()} == {FORMATS.get(name)}, alias


def test_ports_may_have_formats_of_their_own() -> None:
    config = {"name": "integer", "data_in_width": 8, "weight_name": "binary", "weight_stochastic": True}
    assert port_formats(config, "") == {"data_in": Integer(), "weight": parse_format("binary(stochastic=true)")}
    assert port_formats({"name": "mxint", "weight_name": "nvfp4", "bias_name": None}, "") == {
        "data_in": parse_format("mxint"), "weight": parse_format("nvfp4"), "bias": None
    }  # fmt: skip
    assert port_formats({"weight_name": "log", "weight_width": 6}, "") == {"weight": parse_format("log(width=6)")}
    assert port_formats({"name": None, "weight_name": "log"}, "") == {
        "data_in": None, "weight": parse_format("log"), "bias": None, "data_out": None
    }  # fmt: skip
    mixed = {"name": "integer", "data_in_width": 4, "weight_name": "binary", "bipolar": False}
    assert port_formats(mixed, "") == {"data_in": Integer(4), "weight": parse_format("binary(bipolar=false)")}


@pytest.mark.parametrize(
    "config, path",
    [
        ({"name": "integer", "stochastic": True}, "c.stochastic is not an option of integer"),
        ({"name": "integer", "weight_name": "bnary"}, "c.weight_name is 'bnary'"),
        ({"weight_name": "binary", "data_in_width": 4}, "c.name is missing"),
        ({"name": "binary", "binary_training": False}, "binary_training is false"),
        ({"name": "mxint", "weight_exponent_width": 5}, "c.weight_exponent_width is not an option of mxint"),
        ({"name": "integer", "weight_name": "binary", "weight_width": 4}, "c.weight_width is not an option of binary"),
        ({"name": "binary_scaling", "weight_stochastic": True}, "stochastic is true"),
        ({"name": "binary_residual", "bipolar": False}, "bipolar is false"),
        ({"name": "ternary", "weight_scaling_factor": False}, "scaling_factor is false"),
        ({"name": "ternary", "weight_mean": 0.5}, "c.weight_mean is not an option of ternary"),
        ({"name": "mxfp", "weight_exponent_width": 4}, "c.weight_exponent_width is not an option of mxfp"),
        ({"name": "integer", "bypass": "yes"}, "c.bypass is not an option of integer"),
    ],
)
def test_mistakes_in_formats(config: dict[str, Any], path: str) -> None:
    with pytest.raises((OptionsError, FormatError)) as caught:
        port_formats(config, "c")
    assert path in caught.value.message and caught.value.hint
    assert path != "stochastic is true" or "choose binary(stochastic=true)" in caught.value.hint


def test_a_bypassed_layer_stays_float() -> None:
    assert port_formats({"name": "integer", "bypass": True, "weight_width": 8}, "") == {
        "data_in": None, "weight": None, "bias": None, "data_out": None
    }  # fmt: skip
    assert port_formats({"name": "integer", "bypass": False, "is_ptq": True, "weight_width": 4}, "") == {
        "weight": Integer(4, 4)
    }
    data = {"by": "type", "report": True, "linear": {"config": {"bypass": True}}}
    assert [set(r.formats.values()) for r in options("quantize", data).rules] == [{None}]


def mase(**linear: Any) -> dict[str, Any]:
    return {"quantize_transform_pass": {"by": "type", "linear": linear}}


Q = "quantize_transform_pass"


mase_forms = st.fixed_dictionaries({"by": st.sampled_from(("type", "name", "regex")) | json_values}) | st.just({})
entries = st.dictionaries(
    st.sampled_from(("linear", "default", "by", "weight", "activation")),
    json_values
    | st.fixed_dictionaries({"config": json_values | st.fixed_dictionaries({"name": st.just("integer") | json_values})})
    | st.fixed_dictionaries({"sparsity": json_values}, optional={"method": json_values, "scope": json_values}),
)


@pytest.mark.slow
@given(st.sampled_from(("quantize", "prune", "remove_dropout", "steps")), mase_forms, entries)
@settings(derandomize=True, max_examples=300)
def test_any_dict_is_read_or_refused(name: str, mase_form: dict[str, Any], entry: dict[str, Any]) -> None:
    data = {name: {**entry, **mase_form}}
    kept = copy.deepcopy(data)
    try:
        recipe = load_recipe(data)
    except (OptionsError, FormatError) as error:
        assert error.message
    else:
        assert load_recipe(recipe_to_dict(recipe)) == recipe
    assert data == kept


@pytest.mark.parametrize("table", [True, False])
def test_other_passes_are_nothing_to_do_or_one_of_ours(table: bool) -> None:
    steps = {
        "init_metadata_analysis_pass": {},
        "add_common_metadata_analysis_pass": {"dummy_in": {"input_ids": [[1]]}, "add_value": False},
        "report_trainable_parameters_analysis_pass": {},
        "report_graph_analysis_pass": {"file_name": None},
        "conv_bn_fusion_transform_pass": {},
        "emit_verilog_top_transform_pass": {"project_dir": "design"},
    }
    as_list = {"steps": [{"pass": k, "options": v} for k, v in steps.items()]}
    recipe = load_recipe(as_list if table else steps)
    assert [s.pass_name for s in recipe.steps] == ["trainable", "graph", "fold_batch_norm", "hardware"]
    assert recipe.steps[-1].options.folder == "design"
    with pytest.raises(OptionsError, match="file_name"):  # a file that would not be written
        load_recipe({"report_graph_analysis_pass": {"file_name": "graph.txt"}})


@pytest.mark.parametrize(
    "data, path, hint",
    [
        (mase(config={**INT84, "data_in_widht": 8}), f"{Q}.linear.config.data_in_widht", "data_in_width"),
        (mase(config={"name": "integr"}), f"{Q}.linear.config.name", "integer"),
        (mase(config={"name": ["integer"]}), f"{Q}.linear.config.name", "integer"),
        (mase(config={"name": "integer", "weight_width": 99}), f"{Q}.linear.config", "from 1 to 32"),
        (mase(config={"name": "integer", "weight_width": "8"}), f"{Q}.linear.config", "from 1 to 32"),
        (mase(config=8), f"{Q}.linear.config", "table"),
        (mase(config={"weight_width": 8}), f"{Q}.linear.config.name", "name"),
        (mase(confg=INT84), f"{Q}.linear.confg", "config"),
        (mase(config=INT84, configs=INT84), f"{Q}.linear.configs", "config"),
        ({Q: {"by": "type", "linear": "integer"}}, f"{Q}.linear", "config"),
        ({Q: {"by": "kind"}}, f"{Q}.by", "type"),
        ({Q: {"by": ["type"]}}, f"{Q}.by", "type"),
        ({Q: {"by": "regex", "(": {"config": INT84}}}, "'('", "Correct"),
        ({Q: {"linear": {"config": INT84}}}, f"{Q}.linear", "rules"),
        ({Q: 3}, Q, "table"),
        ({"prune": {"weight": {"sparsty": 0.5}}}, "prune.weight.sparsty", "sparsity"),
        ({"prune": {"weights": {"sparsity": 0.5}}}, "prune.weights", "Valid names"),
        ({"prune": {"weight": {"sparsity": 0.5}, "activatoin": {}}}, "prune.activatoin", "activation"),
        ({"prune": {"weight": {"method": "l1-nrom"}}}, "prune.weight.method", "l1-norm"),
        ({"prune": {"weight": {"method": ["l1"]}}}, "prune.weight.method", "l1"),
        ({"prune": {"weight": {"scope": "everywhere"}}}, "prune.weight.scope", "local"),
        ({"prune": {"weight": {"sparsity": 1.5}}}, "prune.weight", "0 to 1"),
        ({"prune": {"weight": {"sparsity": "half"}}}, "prune.weight.sparsity", "number"),
        ({"prune": {"weight": 0.5}}, "prune.weight", "sparsity"),
        ({"prune": {"activation": {"sparsty": 0.5}, "weight": {}}}, "prune.activation.sparsty", "sparsity"),
        ({"prune": {"activation": {"sparsity": 1.5}}}, "prune.activation.sparsity", "from 0 to 1"),
        ({"prune": {"activation": {"method": "l3"}}}, "prune.activation.method", "l1"),
        ({"prune": {"activation": 0.5}}, "prune.activation", "sparsity"),
    ],
)  # fmt: skip
def test_mistakes_are_named_with_their_path(data: Any, path: str, hint: str) -> None:
    with pytest.raises((OptionsError, FormatError)) as caught:
        load_recipe(data)
    error: EspalierError = caught.value
    assert path in error.message and hint in error.hint, (error.message, error.hint)


def test_the_callers_dict_is_left_alone() -> None:
    data = {"quantize_transform_pass": TUTORIAL_3, "prune_transform_pass": TUTORIAL_4}
    kept = copy.deepcopy(data)
    first, second = load_recipe(data), load_recipe(data)
    assert data == kept and json.dumps(data) == json.dumps(kept) and first == second


def test_autosharding_becomes_a_plan() -> None:
    """The options of MASE's distributed pipeline; the first axis lies between machines."""
    theirs = {"algo": "alpa", "mesh_shape": [2, 4], "inter_node_bandwidth": 10e9, "intra_node_bandwidth": 100e9,
              "skip_fully_replicated": False, "time_limit": 100, "mip_rel_gap": 0, "run_checks": False,
              "preload_solution": False, "ilp_solution_file": "ilp_solution.pkl"}  # fmt: skip
    found = load_recipe({"autosharding_analysis_pass": theirs}).steps[0]
    assert found.pass_name == "shard_plan" and found.options == ShardPlanOptions(mesh="2x4", rates="1e+10,1e+11")
    with pytest.raises(OptionsError, match="algo"):
        load_recipe({"autosharding_analysis_pass": {"mesh_shape": [4], "algo": "megatron"}})
