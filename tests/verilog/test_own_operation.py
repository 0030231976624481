"""The guide's hardware operation of a user's own, from its page: proven, scheduled, emitted, searched, withdrawn."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from espalier.app.cli import main
from espalier.model.document.project import load_project
from espalier.model.errors import OptionsError
from espalier.model.store.weights import WeightStore
from espalier.passes.analysis.balance_front import BalanceFrontOptions, balance_front
from espalier.passes.base import Context
from espalier.passes.costs.base import COSTS
from espalier.passes.costs.limits import parse_limit
from espalier.passes.plugins.plugins import load_plugin, reload_plugins, unload_plugins
from espalier.verilog.design.stream import Stream
from espalier.verilog.lowering.lower import RULES
from espalier.verilog.numbers.fixed import Fixed
from tests.reference.examples import blocks
from tests.verilog.checks import needs_icarus, on_time, proven, random_codes

Capture = pytest.CaptureFixture[str]
MODEL = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.act, self.last = nn.Linear(6, 8), nn.LeakyReLU({slope}), nn.Linear(8, 3)

    def forward(self, x):
        return self.last(self.act(self.first(x)){more})


def make():
    torch.manual_seed(0)
    return Net().eval(), {{"x": torch.randn(4, 6)}}
"""
RECIPE = """
[[steps]]
pass = "quantize"
[[steps.options.rules]]
select = {by = "type", values = ["linear"]}
[steps.options.rules.formats]
data_in = "integer(width=8,frac_width=4)"
weight = "integer(width=8,frac_width=6)"
bias = "integer(width=12,frac_width=8)"
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Path]:
    """The two files, exactly as the guide prints them."""
    (python, *_), (verilog,) = (blocks("how-to/hardware-operation.md", kind) for kind in ("python", "systemverilog"))
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "my_leaky.py").write_text(python)
    (folder / "my_leaky.sv").write_text(verilog)
    yield folder / "my_leaky.py"
    unload_plugins()


def project(folder: Path, capsys: Capture, slope: float = 0.125, more: str = "") -> Path:
    (folder / "net.py").write_text(MODEL.format(slope=slope, more=more))
    (folder / "r.toml").write_text(RECIPE)
    words = ["run", f"{folder / 'net.py'}:make", str(folder / "r.toml"), "-o", str(folder / "p.espalier")]
    assert main(words) == 0, capsys.readouterr().err
    capsys.readouterr()
    return folder / "p.espalier"


def answer(capsys: Capture, *words: object) -> dict[str, Any]:
    assert main([*map(str, words), "--json"]) == 0, capsys.readouterr().err
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@needs_icarus
@pytest.mark.rtl
def test_the_module_equals_its_integer_model(plugin: Path, tmp_path: Path) -> None:
    load_plugin(plugin)
    template: Any = RULES["leaky_relu"].__globals__["MyLeaky"]
    rng = np.random.default_rng(0)
    for width, lanes, shift in ((8, 1, 3), (5, 3, 1), (12, 2, 6)):
        x, y = (Stream(3, 6, Fixed(width + s, 4 + s), lanes) for s in (0, shift))
        made = template(name="act", node="act", inputs=(x,), outputs=(y,), shift=shift)
        codes = (random_codes(rng, x, 5),)
        np.testing.assert_array_equal(
            y.fixed.values(made.reference(*codes)[0]),
            np.where(codes[0] < 0, x.fixed.values(codes[0]) * 2.0**-shift, x.fixed.values(codes[0])),
        )
        proven(made, codes, tmp_path)
        on_time(made, codes, tmp_path)


@pytest.mark.slow
@needs_icarus
@pytest.mark.rtl
def test_the_check_of_the_guide_finds_wrong_cycles(plugin: Path, tmp_path: Path) -> None:
    """The page's script is silent about the page's operation, and not about one that says a later cycle."""
    (script := tmp_path / "check.py").write_text(blocks("how-to/hardware-operation.md", "python")[2])
    root = Path(__file__).parents[2]
    places = os.pathsep.join(map(str, (root / "roots", root, plugin.parent)))

    def checked() -> subprocess.CompletedProcess[str]:
        words, env = [sys.executable, str(script)], os.environ | {"PYTHONPATH": places, "TMPDIR": str(tmp_path)}
        return subprocess.run(words, env=env, text=True, capture_output=True, check=False)

    assert (good := checked()).returncode == 0, good.stderr
    text = plugin.read_text()
    assert '{"y": every}, 1)' in text
    plugin.write_text(text.replace('{"y": every}, 1)', '{"y": every}, 3)'))
    assert (wrong := checked()).returncode == 1 and "AssertionError" in wrong.stderr


@needs_icarus
@pytest.mark.rtl
def test_the_command_line_emits_and_simulates_it(plugin: Path, tmp_path: Path, capsys: Capture) -> None:
    made = project(tmp_path, capsys)
    words = ("emit", made, "-o", tmp_path / "rtl", "--simulate", "--simulator", "icarus", "--samples", 20)
    found = answer(capsys, *words, "--plugin", plugin)
    assert found["mismatches"] == 0 and not found["lint"]["findings"] and "my_leaky" in found["modules"]
    assert (tmp_path / "rtl" / "rtl" / "my_leaky.sv").read_text() == plugin.with_suffix(".sv").read_text()
    unload_plugins()
    assert "pieces" in answer(capsys, "emit", made, "-o", tmp_path / "ours")["modules"], "ours is back"


def test_what_its_area_is_nobody_knows(plugin: Path, tmp_path: Path, capsys: Capture) -> None:
    """Not known, in its row, in the sum, in the design's own text and in the areas of a front; never 0."""
    made, none = project(tmp_path, capsys), dict.fromkeys(("lut", "ff", "dsp", "bram"))
    words = ("emit", made, "-o", tmp_path / "rtl", "--plugin", plugin)
    found = answer(capsys, *words)
    area, rows = found["area"], found["rows"]
    assert {k: area[k] for k in none} == none and area["unknown"] == ["my_leaky"]
    assert [r["module"] for r in rows if {k: r[k] for k in none} == none] == ["my_leaky"]
    assert area["rest"] == {k: sum(r[k] or 0 for r in rows) for k in none} and area["rest"]["lut"] > 0
    assert main([*map(str, words)]) == 0
    assert "unknown (no estimate for my_leaky); the rest takes" in capsys.readouterr().out
    assert "unknown (no estimate for `my_leaky`)" in (tmp_path / "rtl" / "README.md").read_text()
    store = WeightStore(tmp_path / "store")
    opened = load_project(made, store)
    report = balance_front(opened.graph, BalanceFrontOptions(4), Context(store))[1]
    assert report.summary["unknown"] == ["my_leaky"] and all(r["lut"] is None for r in report.rows)
    unload_plugins()
    assert answer(capsys, *words[:-2])["area"]["lut"] > 0


def test_no_limit_is_kept_by_an_area_that_is_not_known(plugin: Path, tmp_path: Path, capsys: Capture) -> None:
    """With the plug-in's hardware for linear layers the estimate of ours says nothing of them."""
    made = project(tmp_path, capsys)
    graph, cost = load_project(made, WeightStore(tmp_path / "store")).graph, COSTS.get("lut")
    assert cost.of is not None and cost.of(graph, None) > 0
    plugin.write_text(plugin.read_text().replace('"leaky_relu"', '"linear"'))
    load_plugin(plugin)
    assert math.isnan(cost.of(graph, None)) and parse_limit("lut<=1000000").violation(cost.of(graph, None)) > 0
    node = next(n for n in graph if n.op == "linear")
    assert cost.shares is not None and cost.shares.node is not None
    with pytest.raises(OptionsError, match="is not known"):
        cost.shares.node(node, graph)


@pytest.mark.parametrize("name", ["lut", "ff", "dsp", "bram", "unrolled_lut", "unrolled_ff"])
def test_an_operation_between_layers_leaves_no_sum(plugin: Path, tmp_path: Path, capsys: Capture, name: str) -> None:
    """The activation's own area is part of the design: emit says not known, and so do costs and their limits."""
    made = project(tmp_path, capsys)
    graph, cost = load_project(made, WeightStore(tmp_path / "store")).graph, COSTS.get(name)
    assert cost.of is not None and cost.of(graph, None) >= 0
    load_plugin(plugin)
    assert math.isnan(cost.of(graph, None))
    assert cost.shares is not None and cost.shares.node is not None
    with pytest.raises(OptionsError, match="The area of act is not known"):
        cost.shares.node(graph.nodes["act"], graph)


def test_a_search_for_an_unknown_area_is_refused_beforehand(plugin: Path, tmp_path: Path, capsys: Capture) -> None:
    made, spec = project(tmp_path, capsys), tmp_path / "s.toml"
    space = '[[space]]\nports = ["weight"]\nvalues = "integer(width=4|8)"\n'
    spec.write_text(f'goals = ["weight_bits"]\nwithin = ["lut<=100000"]\ntrials = 2\nsampler = "random"\n{space}')
    words = ["search", str(made), str(spec), "-o", str(tmp_path / "s.json")]
    assert main(words) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert main([*words[:-1], str(tmp_path / "t.json"), "--plugin", str(plugin)]) == 2
    assert "The area of act is not known" in " ".join(capsys.readouterr().err.split())


def test_no_table_swallows_it(plugin: Path, tmp_path: Path, capsys: Capture) -> None:
    """Steps that are functions of one number become one table, except where the user has an operation for one."""
    made = project(tmp_path, capsys, more=" * 0.5")
    assert "my_leaky" not in answer(capsys, "emit", made, "-o", tmp_path / "a")["modules"]
    assert "my_leaky" in answer(capsys, "emit", made, "-o", tmp_path / "b", "--plugin", plugin)["modules"]


def test_its_own_refusal_reaches_the_user(plugin: Path, tmp_path: Path, capsys: Capture) -> None:
    made = project(tmp_path, capsys, slope=0.01)
    assert main(["emit", str(made), "-o", str(tmp_path / "a"), "--plugin", str(plugin)]) == 2
    assert "act has the slope 0.01. Use a power of two" in " ".join(capsys.readouterr().err.split())


def test_a_module_that_is_missing_or_takes_a_name(plugin: Path, tmp_path: Path, capsys: Capture) -> None:
    made = project(tmp_path, capsys)
    module = plugin.with_suffix(".sv").rename(tmp_path / "elsewhere.sv")
    words = ["emit", str(made), "-o", str(tmp_path / "a"), "--plugin", str(plugin)]
    assert main(words) == 2
    assert "The module my_leaky has no text. Put my_leaky.sv beside" in " ".join(capsys.readouterr().err.split())
    shutil.copy(module, plugin.with_name("relu.sv"))
    plugin.write_text(plugin.read_text().replace('"my_leaky"', '"relu"'))
    unload_plugins()
    assert main(words) == 2
    assert "act defines a module relu; the design has another of that name." in capsys.readouterr().err


def test_the_list_says_what_it_adds(plugin: Path) -> None:
    (state,) = (s for s in reload_plugins([plugin]) if s.source == str(plugin))
    assert state.others == ("hardware rule leaky_relu",) and not state.error and not state.passes
    ours = RULES.source("leaky_relu")
    unload_plugins()
    assert "my_leaky.py:" in ours and "verilog/rules/activation.py:" in RULES.source("leaky_relu")


def test_without_replace_both_files_are_named(plugin: Path, tmp_path: Path, capsys: Capture) -> None:
    made = project(tmp_path, capsys)
    plugin.write_text(plugin.read_text().replace(", replace=True", ""))
    assert main(["emit", str(made), "-o", str(tmp_path / "a"), "--plugin", str(plugin)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "verilog/rules/activation.py:" in said and "my_leaky.py:" in said and "replace=True" in said


def test_a_design_is_not_called_as_one_of_its_modules(plugin: Path, tmp_path: Path, capsys: Capture) -> None:
    made = project(tmp_path, capsys)
    words = ["emit", str(made), "-o", str(tmp_path / "a"), "--name", "my_leaky", "--plugin", str(plugin)]
    assert main(words) == 2
    assert "defines a module my_leaky; the design has another of that name" in capsys.readouterr().err


def test_a_rule_without_a_result_is_told(plugin: Path, tmp_path: Path, capsys: Capture) -> None:
    """Told to whoever reads it: here the next layer."""
    made = project(tmp_path, capsys)
    text = plugin.read_text()
    assert "    low.publish(node, x)" in text
    plugin.write_text(text.replace("    low.publish(node, x)", "    pass"))
    assert main(["emit", str(made), "-o", str(tmp_path / "rtl"), "--plugin", str(plugin), "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert "The rule of leaky_relu gave act no result." in error["message"] and "low.publish" in error["hint"]
