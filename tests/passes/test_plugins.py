"""Plug-ins: our own decorators and formats, and files that cannot be used."""

from __future__ import annotations

import pickle
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest

from espalier.model.document.graph_json import graph_from_json, graph_to_json
from espalier.model.document.recipe import Raw, Recipe, Step
from espalier.model.errors import OptionsError, PassError, ProjectError, RegistryError
from espalier.model.formats.base import Format, parse_format
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision
from espalier.model.registry import FORMATS, PASSES
from espalier.passes.base import Context, NoOptions, run_step
from espalier.passes.plugins.plugins import (
    default_folder,
    load_formats,
    load_plugin,
    load_plugins,
    plugin_passes,
    plugin_places,
    portable,
    reload_plugins,
    unload_plugins,
)
from espalier.passes.recipes.config import load_recipe, recipe_to_dict
from espalier.passes.recipes.offered import PluginState, kept, missing_notice, stand_in, typed
from tests.model.zoo import case


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


OWN = """
    from __future__ import annotations
    from dataclasses import dataclass
    from typing import ClassVar
    from espalier.model.formats.integer import Integer
    from espalier.model.registry import FORMATS
    from espalier.passes.base import Report, analysis

    @dataclass(frozen=True, slots=True)
    class GreetOptions:
        name: str = "you"

    @analysis("greet_plugin_test", "Greet", GreetOptions, instant=True)
    def greet(graph, options, context):
        return graph, Report("greet_plugin_test", (), {"hello": options.name})

    @FORMATS.register("plugin_test_format")
    @dataclass(frozen=True, slots=True)
    class Mine(Integer):
        name: ClassVar[str] = "plugin_test_format"
"""


@pytest.fixture(autouse=True)
def _unloaded() -> Iterator[None]:
    """Nothing of a test's plug-ins stays."""
    yield
    unload_plugins()


def test_own_decorators_register(tmp_path: Path) -> None:
    path = write(tmp_path, "own.py", OWN)
    found = load_plugin(path)
    assert found.passes == ("greet_plugin_test",) and found.formats == ("plugin_test_format",)
    assert PASSES.get("greet_plugin_test").options().name == "you"
    assert parse_format("plugin_test_format(width=4)").bits == 4
    assert load_plugin(path) is found  # a second time runs nothing
    assert plugin_passes() >= {"greet_plugin_test"}
    unload_plugins()
    assert "greet_plugin_test" not in PASSES and "plugin_test_format" not in FORMATS


HALF = """
    from dataclasses import dataclass
    from typing import ClassVar
    from espalier.model.formats.base import Format
    from espalier.model.registry import FORMATS

    @FORMATS.register("half_made")
    @dataclass(frozen=True, slots=True)
    class HalfMade(Format):
        name: ClassVar[str] = "half_made"
        width: int = 4

        def define(self, x):
            return x
"""


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("empty.py", "x = 1", "registers nothing"),
        (
            "raises.py",
            "x = 1\nraise RuntimeError('no luck.')",
            r"^The plug-in raises.py raised RuntimeError: no luck \(line 2\)\. ",
        ),
        ("exits.py", "import sys\nsys.exit(3)", r"raised SystemExit: 3 \(line 2"),
        ("syntax.py", "def f(:\n  pass", r"^The plug-in syntax.py raised SyntaxError: invalid syntax \(line 1\)\. "),
        ("notes.txt", "hello", "not a Python file"),
        ("half.py", HALF, "The number format half_made lacks title, formula, source, codes, decode, "),
        (
            "renamed.py",
            OWN.replace('.register("plugin_test_format")', '.register("other")'),
            "The number format other has the name 'plugin_test_format'",
        ),
    ],
)
def test_bad_files_give_one_error(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(PassError, match=message):
        load_plugin(write(tmp_path, name, text))
    assert "half_made" not in FORMATS and "other" not in FORMATS


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("graph", "returned a Graph"),
        ("None", "returned a NoneType"),
        ("(graph, {'a': 1})", "returned a tuple"),
        ("(graph, Report('returns_plugin_test', {'a': 1}))", "returned a report with other rows"),
        ("(graph, Report('returns_plugin_test', ('a',)))", "returned a report whose rows are no dicts"),
        ("(graph, Report('returns_plugin_test', (), 3))", "returned a report with other rows or another summary"),
    ],
)
def test_a_pass_that_returns_something_else_is_told(tmp_path: Path, value: str, told: str) -> None:
    load_plugin(write(tmp_path, "returns.py", f"""
        from espalier.passes.base import NoOptions, Report, analysis

        @analysis("returns_plugin_test", "Returns", NoOptions)
        def returns(graph, options, context):
            return {value}
    """))  # fmt: skip
    graph = case("mlp").graph
    with pytest.raises(PassError, match=told) as found:
        run_step(graph, Step("returns_plugin_test", NoOptions()), Context(case("mlp").store))
    assert "rows is a tuple of dicts" in found.value.hint


DIALECT = """
    from espalier.model.document.recipe import Step
    from espalier.model.registry import PASSES
    from espalier.passes.base import PassSpec, NoOptions, Report
    from espalier.passes.recipes.dialects import DIALECTS, Dialect

    class Toy(Dialect):
        names = frozenset({"drop_all"})
        signature = "a toy"

        def steps(self, name, options, path):
            return (Step("remove_dropout", NoOptions()),) * 2 if name in self.names else None

        def is_pass(self, function):
            return function.__name__.startswith("toy_")

        def register(self, function, file):
            run = lambda graph, options, context: (graph, Report(function.__name__))
            PASSES.add(function.__name__, PassSpec(function.__name__, "analysis", NoOptions, run, "Toy", "", False))

    DIALECTS.add("toy", Toy())

    def toy_plugin_test():
        pass
"""


def test_a_plugin_may_bring_a_dialect(tmp_path: Path) -> None:
    found = load_plugin(write(tmp_path, "dialect.py", DIALECT))
    assert found.others == ("dialect toy",) and found.passes == ("toy_plugin_test",)
    assert load_recipe({"drop_all": {}}, seed=3).steps == (Step("remove_dropout", NoOptions(), 3),) * 2
    with pytest.raises(PassError, match=r"or write my_pass\(mg, pass_args=\{\}\), or write a toy\."):
        load_plugin(write(tmp_path, "empty.py", "x = 1"))
    with pytest.raises(OptionsError, match="'drop_all'"):
        load_recipe({"drop_al": {}})
    unload_plugins()
    with pytest.raises(OptionsError, match="no pass 'drop_all'"):
        load_recipe({"drop_all": {}})


def test_names_in_use_are_refused_with_both_files(tmp_path: Path) -> None:
    text = "x = 1\ndef {}(mg, pass_args={{}}):\n    return mg, {{}}"
    both = r"The pass 'prune' is registered twice: by passes/transform/prune.py:\d+ and by .*taken.py:2\."
    with pytest.raises(RegistryError, match=both):
        load_plugin(write(tmp_path, "taken.py", text.format("prune")))
    load_plugin(write(tmp_path, "a.py", text.format("twice_plugin_test")))
    with pytest.raises(RegistryError, match=r"by .*/a.py:2 and by .*/b.py:2"):
        load_plugin(write(tmp_path, "b.py", text.format("twice_plugin_test")))
    (state,) = files_of(reload_plugins([tmp_path / "taken.py"]))
    assert "prune.py" in state.error and "another name" in state.hint


REPLACES = """
    from espalier.passes.base import Report, transform

    @transform("prune", "My own", replace=True)
    def prune(graph, options, context):
        return graph, Report("prune", (), {"mine": 1})
"""


def test_ours_is_replaced_on_request_and_comes_back(tmp_path: Path) -> None:
    ours = PASSES.get("prune")
    load_plugin(write(tmp_path, "a.py", REPLACES))
    assert PASSES.get("prune").title == "My own" and plugin_passes() >= {"prune"}
    with pytest.raises(RegistryError, match=r"replaced twice: by .*/a.py:4 and by .*/b.py:4"):
        load_plugin(write(tmp_path, "b.py", REPLACES))
    unload_plugins()
    assert PASSES.get("prune") is ours


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(PassError, match="There is no plug-in"):
        load_plugin(tmp_path / "gone.py")


def test_a_fault_leaves_nothing_and_a_corrected_file_is_read_again(tmp_path: Path) -> None:
    """The change is one of the same second and size."""
    path = write(tmp_path, "half.py", OWN + "\n    1 / 0\n")
    (state,) = files_of(reload_plugins([path]))
    assert "ZeroDivisionError" in state.error and state.hint and not state.passes
    assert "greet_plugin_test" not in PASSES and "plugin_test_format" not in FORMATS
    write(tmp_path, "half.py", OWN + "\n    1 / 1\n")
    (state,) = files_of(reload_plugins([path]))
    assert not state.error and [p.name for p in state.passes] == ["greet_plugin_test"]
    write(tmp_path, "half.py", OWN.replace('"you"', '"her"') + "\n    1 / 1\n")
    reload_plugins([path])
    assert PASSES.get("greet_plugin_test").options().name == "her"
    assert not list(tmp_path.glob("__pycache__"))


def files_of(states: tuple[PluginState, ...]) -> list[PluginState]:
    return [s for s in states if s.source.startswith("/")]


def test_the_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESPALIER_PLUGINS", str(tmp_path))
    assert plugin_places() == (tmp_path,)
    write(tmp_path, "a_bad.py", "1 / 0")
    write(tmp_path, "_part.py", "1 / 0")
    write(tmp_path, "good.py", "def folder_plugin_test_pass(mg, pass_args={}):\n    return mg, {}")
    told: list[str] = []
    found = load_plugins([], told.append)
    assert [p.passes for p in found] == [("folder_plugin_test_pass",)]
    assert told == ["A plug-in was left out. The plug-in a_bad.py raised ZeroDivisionError: division by zero (line 1). "
                    "Correct the file, then load it again."]  # fmt: skip


def test_the_list_of_the_windows_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PySide6.QtCore import QSettings

    from espalier.app.settings import Settings

    monkeypatch.delenv("ESPALIER_PLUGINS", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert plugin_places() == (default_folder(),) == (tmp_path / "espalier" / "plugins",)
    settings = Settings(QSettings(str(tmp_path / "Espalier" / "Espalier.conf"), QSettings.Format.IniFormat))
    places = (str(tmp_path / "my plug-ins, mine"), str(tmp_path / "ä.py"))
    settings.plugins = places
    settings.sync()
    assert settings.plugins == places and plugin_places() == (*map(Path, places), default_folder())
    told: list[str] = []
    load_plugins([], told.append)
    assert len(told) == 2 and "There is no plug-in" in told[0], "places that are gone are told"


# -- as data, for a process without the plug-in

KINDS = """
    from dataclasses import dataclass, field
    from typing import Literal
    from espalier.passes.base import Report, transform
    from espalier.passes.select import Select

    @dataclass(frozen=True)
    class Mine:
        x: int = 3

    @dataclass(frozen=True, slots=True)
    class Options:
        times: int
        how: Literal["loud", "soft"] = "soft"
        ratio: float = field(default=0.5, metadata={"min": 0.0, "max": 1.0, "help": "how much", "own": print})
        select: Select = field(default_factory=Select)
        widths: tuple[int, ...] = (4, 8)
        mine: Mine = field(default_factory=Mine)

    @transform("kinds_plugin_test", "Kinds", Options, lasting=True)
    def kinds(graph, options, context):
        'What it does.'
        assert isinstance(options, Options) and isinstance(options.mine, Mine)
        return graph, Report("kinds_plugin_test", (), {"times": options.times, "x": options.mine.x})
"""


def test_options_travel_as_data_and_come_back_typed(tmp_path: Path) -> None:
    (state,) = files_of(reload_plugins([write(tmp_path, "kinds.py", KINDS)]))
    (offered,) = pickle.loads(pickle.dumps(state)).passes
    spec = stand_in(offered)
    options = spec.options(times=2, mine={"x": 5})
    assert (spec.title, spec.doc, spec.instant, options.how, options.widths) == (
        "Kinds", "What it does.", False, "soft", (4, 8))  # fmt: skip
    assert spec.lasting and not spec.timed, "the window treats its jobs as those of a built-in pass"
    assert dict(fields(spec.options)[2].metadata) == {"min": 0.0, "max": 1.0, "help": "how much"}
    step = pickle.loads(pickle.dumps(Step("kinds_plugin_test", kept(options))))
    found = run_step(case("mlp").graph, step, Context(case("mlp").store))
    assert found.report.summary == {"times": 2, "x": 5}
    assert typed(step.pass_name, step.options).times == 2


def test_recipes_leave_the_worker_without_the_plugins_types(tmp_path: Path) -> None:
    load_plugin(write(tmp_path, "kinds.py", KINDS))
    recipe = load_recipe({"kinds_plugin_test": {"times": 3}, "prune": {}})
    sent = portable(recipe)
    assert sent.steps[0].options == Raw({"times": 3}) and sent.steps[1] == recipe.steps[1]
    assert portable(sent) == sent and load_recipe(recipe_to_dict(sent)) == recipe


def test_one_notice_names_all_that_is_missing() -> None:
    recipe = Recipe(tuple(Step(n, Raw({})) for n in ("gone_a", "gone_b", "gone_a", "prune")))
    notice = missing_notice(recipe, "Do this.")
    assert notice and "gone_a, gone_b" in notice.message and "Do this." in notice.hint
    assert missing_notice(Recipe(recipe.steps[3:]), "") is None


def test_formats_travel_by_name_and_outlive_their_file(tmp_path: Path) -> None:
    """An open document holds values of the class that was; other processes and a loaded file have another."""
    path = write(tmp_path, "own.py", OWN)
    load_formats(path)
    assert "greet_plugin_test" not in PASSES, "the window takes the formats alone"
    old = parse_format("plugin_test_format(width=4)")
    reload_plugins([path])
    new = pickle.loads(pickle.dumps(old))
    assert new == parse_format("plugin_test_format(width=4)") and type(new) is not type(old)
    data = graph_to_json(quantised(new))
    assert graph_from_json(data)["first"].precision["weight"].format == new
    unload_plugins()
    with pytest.raises(ProjectError, match="needs a number format that is not here") as caught:
        graph_from_json(data)
    assert "plug-in" in caught.value.hint


def quantised(fmt: Format) -> Graph:
    graph = case("mlp").graph
    return graph.replace(replace(graph["first"], precision={"weight": Precision(fmt)}))


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkout's folders cannot be imported without the name of the package, as in a run of the program."""
    monkeypatch.setattr(sys, "path", [p for p in sys.path if not (Path(p) / "roots").is_dir()])
    for name in [n for n in sys.modules if n.partition(".")[0] in ("model", "passes")]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize("line", ["from {} import PassError", "import {}", "if True:\n    import {} as e"])
@pytest.mark.parametrize("root", ["model", "passes"])
def test_imports_without_the_name_of_the_package_are_told_how_to_be_written(
    tmp_path: Path, line: str, root: str
) -> None:
    with pytest.raises(PassError, match=f"No module named '{root}'") as caught:
        load_plugin(write(tmp_path, "old.py", line.format(f"{root}.errors")))
    assert caught.value.hint == f"Write espalier.{root}.errors instead of {root}.errors."


@pytest.mark.usefixtures("outside")
def test_a_module_of_the_users_own_that_is_missing_gets_no_such_hint(tmp_path: Path) -> None:
    with pytest.raises(PassError, match="No module named 'model'") as caught:
        load_plugin(write(tmp_path, "own.py", "from model import Net"))
    assert "espalier" not in caught.value.hint
