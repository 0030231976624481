"""Registries: one entry a key, both files in the error, and what a plug-in replaced comes back."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import espalier.passes  # noqa: F401  (the fast versions register)
from espalier.kernels.bench.spec import KERNELS
from espalier.kernels.fake_quant.plan import PLANS
from espalier.model.data.base import SOURCES
from espalier.model.document.project import MIGRATIONS
from espalier.model.errors import OptionsError, RegistryError
from espalier.model.formats.base import FAST
from espalier.model.graph.ops import _ROWS, OPS  # pyright: ignore[reportPrivateUsage]
from espalier.model.registry import FORMATS, PASSES, Registry, recorded, withdraw
from espalier.model.torch.fast_mx import VALUES
from espalier.passes.costs.base import COSTS
from espalier.passes.jobs.worker import HANDLERS
from espalier.passes.structure.flow import RULES as AXES
from espalier.verilog.lowering.lower import RULES as HARDWARE

ALL = (FORMATS, PASSES, COSTS, KERNELS, PLANS, FAST, VALUES, MIGRATIONS, AXES, HANDLERS, HARDWARE, SOURCES)


@pytest.fixture
def table() -> Registry[str, object]:
    """With one entry of our own."""
    made: Registry[str, object] = Registry("thing", OptionsError)
    made.add("taken", "ours", source="verilog/rules/first.py:7")
    return made


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Run a text as a module of its own."""

    def run(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, path.stem, module)
        spec.loader.exec_module(module)
        return path

    return run


@pytest.mark.parametrize("registry", ALL, ids=lambda r: r.noun)
def test_every_registry_refuses_a_second_entry_and_names_both_files(registry: Registry) -> None:  # type: ignore[type-arg]
    key = next(iter(registry))
    first = registry.find(key)
    with pytest.raises(RegistryError) as caught:
        registry.add(key, object(), source="/tmp/mine.py:3")
    assert registry.source(key) in caught.value.message and "/tmp/mine.py:3" in caught.value.message
    assert "replace=True" in caught.value.hint and registry.find(key) is first
    with recorded() as added:
        mine = registry.add(key, object(), replace=True, source="/tmp/mine.py:3")
    assert registry.find(key) is mine
    withdraw(added)
    assert registry.find(key) is first


RULE = """
from espalier.verilog.lowering.lower import lowers

@lowers("leaky_relu"{more})
def mine(low, node):
    pass
"""
AXIS = """
from espalier.passes.structure.flow import rule

@rule("relu"{more})
def mine(flow, node):
    pass
"""
PLAN = """
from espalier.kernels.fake_quant.plan import register_plan
from espalier.model.formats.integer import Integer

@register_plan(Integer{more})
def mine(fmt, dtype):
    return None
"""
TRANSFORM = """
from espalier.passes.base import Report, transform

@transform("prune", "Mine"{more})
def mine(graph, options, context):
    return graph, Report("prune")
"""


@pytest.mark.parametrize(
    ("registry", "key", "text", "first"),
    [(HARDWARE, "leaky_relu", RULE, "verilog/rules/activation.py:"),
     (AXES, "relu", AXIS, "passes/structure/rules_math.py:"),
     (PLANS, None, PLAN, "kernels/fake_quant/plans/integer.py:"),
     (PASSES, "prune", TRANSFORM, "passes/transform/prune.py:")],
    ids=["lowers", "rule", "register_plan", "transform"],
)  # fmt: skip
def test_the_decorators(registry: Registry, key: str, text: str, first: str, load: Callable[[str, str], Path]) -> None:  # type: ignore[type-arg]
    from espalier.model.formats.integer import Integer

    key = key or Integer  # type: ignore[assignment]
    ours = registry[key]
    with pytest.raises(RegistryError, match=rf"registered twice: by {first}\d+ and by .*zz_mine.py:\d+\."):
        load("zz_mine.py", text.format(more=""))
    with recorded() as added:
        load("zz_mine.py", text.format(more=", replace=True"))
    assert registry[key] is not ours and "zz_mine.py" in registry.source(key)
    withdraw(added)
    assert registry[key] is ours


def test_two_plug_ins_do_not_replace_the_same(table: Registry[str, object]) -> None:
    """The order of their names would decide."""
    table.add("taken", "one", replace=True, source="/tmp/a.py:1")
    with pytest.raises(RegistryError, match=r"replaced twice: by /tmp/a.py:1 and by /tmp/b.py:2"):
        table.add("taken", "two", replace=True, source="/tmp/b.py:2")
    assert table["taken"] == "one"
    table.remove("taken")
    assert table["taken"] == "ours"


def test_what_fails_half_way_leaves_nothing(table: Registry[str, object]) -> None:
    with pytest.raises(ZeroDivisionError), recorded():
        table.add("mine", 1, source="/tmp/a.py:1")
        table.add("taken", 2, replace=True, source="/tmp/a.py:2")
        _ = 1 / 0
    assert "mine" not in table and table["taken"] == "ours"


def test_our_own_modules_are_no_part_of_the_plug_in_that_imports_them(table: Registry[str, object]) -> None:
    with recorded() as added:
        table.add("more", 1, source="passes/transform/late.py:3")
        table.add("mine", 2, source="/home/me/plugin.py:3")
    assert [key for _, key in added] == ["mine"]
    withdraw(added)
    assert "more" in table and "mine" not in table


def test_plug_ins_come_last(tmp_path: Path, load: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that nobody has asked yet fills before a stranger's entry, which is the one refused."""
    (tmp_path / "late_own.py").write_text("from late_table import TABLE\nTABLE.add('x', 1, source='model/own.py:1')\n")
    (tmp_path / "late_table.py").write_text(
        "from espalier.model.registry import Registry\nTABLE = Registry('thing', packages=('late_own',))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(RegistryError, match=r"by model/own.py:1 and by .*stranger.py:2"):
        load("stranger.py", "from late_table import TABLE\nTABLE.add('x', 2)\n")


def test_what_is_missing_names_the_nearest(table: Registry[str, object]) -> None:
    with pytest.raises(OptionsError, match=r"There is no thing 'takn'\. Did you mean 'taken'\?"):
        table.get("takn")


def test_the_table_of_ops_has_each_once() -> None:
    assert len(OPS) == len(_ROWS)


@pytest.fixture(autouse=True)
def _unchanged() -> Iterator[None]:
    before = [dict(r.items()) for r in ALL]
    yield
    assert [dict(r.items()) for r in ALL] == before
