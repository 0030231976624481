"""Holds the house rules that no linter knows: who loads what, how large things may grow, what is documented,
which calls are unsafe, what lies at the top of the repository, and the guard on the name `kernels`.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import networkx
import pytest

from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("app", "model", "passes", "kernels", "verilog")
CORE = ("model", "passes", "kernels", "verilog", "app.cli", "app.commands", "app.api")  # and each feature's commands
QT = ("PySide6", "shiboken6", "pyqtgraph")
HEAVY = {"torch", "transformers", "optuna", "triton", "numba"}
LIGHT = (
    "graph/graph", "graph/node", "graph/meta", "document/codec", "document/recipe", "document/document",
    "document/project", "registry", "errors",
)  # fmt: skip
TOP = {
    "app", "model", "passes", "kernels", "verilog", "resources", "roots", "tests", "main.py",
    "pyproject.toml", "README.md", "Makefile", "LICENSE",
}  # fmt: skip

FILE_MEDIAN, FILE_MOST = 130, 500
FUNCTION_MEDIAN, FUNCTION_MOST = 8, 60
CLASS_MOST = 250
DOCSTRING_MOST = 4

# (file, call) → why it is safe there. The test fails on an entry that is no longer needed.
ALLOWED_CALLS: dict[tuple[str, str], str] = {
    ("app/interpreter/interpreter.py", "exec"): "runs what the user types into the console, in its own process",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


# ---- reading the source --------------------------------------------------------------------------------


@cache
def sources() -> dict[str, ast.Module]:
    """Every source file of the product, parsed, by its path from the root."""
    files = [ROOT / "main.py", *sorted((ROOT / "roots" / "espalier").glob("*.py"))]
    for package in PACKAGES:
        files += sorted((ROOT / package).rglob("*.py"))
    return {f.relative_to(ROOT).as_posix(): ast.parse(f.read_text(encoding="utf-8"), str(f)) for f in files}


def module_name(path: str) -> str:
    """`model/data/__init__.py` → `espalier.model.data`."""
    return "espalier." + path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


class Definition(NamedTuple):
    """A function or class and where it stands; `public` if no name on the way to it is private."""

    path: str
    name: str
    node: Function | ast.ClassDef
    inside: ast.AST
    public: bool

    def __str__(self) -> str:
        return f"{self.path}:{self.node.lineno} {self.name}"


def definitions() -> Iterator[Definition]:
    """All functions and classes, nested ones too."""

    def walk(parent: ast.AST, path: str, trail: tuple[str, ...], public: bool) -> Iterator[Definition]:
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, Function | ast.ClassDef):
                name = (*trail, node.name)
                seen = public and not node.name.startswith("_") and not isinstance(parent, Function)
                yield Definition(path, ".".join(name), node, parent, seen)
                yield from walk(node, path, name, seen)
            else:
                yield from walk(node, path, trail, public)

    for path, tree in sources().items():
        yield from walk(tree, path, (), True)


def functions() -> list[Definition]:
    """All functions and methods."""
    return [d for d in definitions() if isinstance(d.node, Function)]


def body_lines(node: Function) -> int:
    """Lines of the body, without the docstring."""
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def file_lines(path: str) -> int:
    """Lines of a file."""
    return len((ROOT / path).read_text(encoding="utf-8").splitlines())


def none(offenders: Iterable[object]) -> None:
    """Fail with one offender per line."""
    found = [str(o) for o in offenders]
    assert not found, "\n".join(["", *found])


def is_marker(path: str) -> bool:
    """An `__init__.py` with nothing in it but its docstring: it would only flatter the median."""
    return path.endswith("__init__.py") and len(sources()[path].body) <= 1


def at_import(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports that run when the module is imported: not those in functions or under TYPE_CHECKING."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                yield from at_import(ast.Module([other], []))
        elif not isinstance(node, Function | ast.Lambda):
            yield from at_import(node)


def imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The top-level packages an import statement names."""
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    return [name.split(".")[0] for name in names]


# ---- who loads what ------------------------------------------------------------------------------------


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter at the repository's root."""
    environment = os.environ | {"QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": str(ROOT / "roots")}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


IMPORT_WITHOUT_QT = """
import importlib, json, sys, traceback
names, blocked = json.loads(sys.argv[1]), json.loads(sys.argv[2])
sys.modules.update(dict.fromkeys(blocked))
failed = {}
for name in names:
    try:
        importlib.import_module(name)
    except BaseException:
        failed[name] = traceback.format_exc(limit=-2)
print("RESULT" + json.dumps(failed))
"""


def is_core(name: str) -> bool:
    """Whether a module must work without Qt."""
    prefix = name.startswith(tuple(f"espalier.{c}." for c in CORE)) or name in {f"espalier.{c}" for c in CORE}
    return prefix or bool(re.fullmatch(r"espalier\.app\.features\.\w+\.commands(\.\w+)?", name))


@pytest.mark.slow
def test_core_imports_without_qt() -> None:
    """The core, the command line and its subcommands work where PySide6 cannot be loaded."""
    names = [module_name(path) for path in sources()]
    core = [n for n in names if is_core(n) and not n.endswith("__main__")]
    assert len(core) > 10
    done = run_python(IMPORT_WITHOUT_QT, json.dumps(core), json.dumps(QT))
    assert done.returncode == 0 and "RESULT" in done.stdout, done.stderr
    failed = json.loads(done.stdout.rpartition("RESULT")[2])
    assert not failed, "\n".join(f"{name}:\n{why}" for name, why in failed.items())


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / "app/shell/window.py").exists(), reason="app/shell/window.py does not exist yet")
def test_window_imports_nothing_heavy() -> None:
    """The first paint must not wait for torch."""
    done = run_python(
        "import sys, espalier.app.shell.window; print('LOADED', *sorted({m.split('.')[0] for m in sys.modules}))"
    )
    assert done.returncode == 0, done.stderr
    assert HEAVY.isdisjoint(done.stdout.rpartition("LOADED")[2].split())


@pytest.mark.slow
@pytest.mark.parametrize("name", LIGHT)
def test_light_modules_import_nothing_heavy(name: str) -> None:
    """What the window needs before its first paint names no heavy package at module level."""
    path = f"model/{name}.py"
    heavy = [f"{path}:{node.lineno}" for node in at_import(sources()[path]) if HEAVY & set(imported(node))]
    none(heavy)


@pytest.mark.parametrize("package", ["model", "passes", "kernels", "verilog"])
def test_core_names_no_qt(package: str) -> None:
    """Not even inside a function."""
    named = [
        f"{path}:{node.lineno}"
        for path, tree in sources().items()
        if path.startswith(package + "/")
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom) and set(QT) & set(imported(node))
    ]
    none(named)


# ---- circles of files -----------------------------------------------------------------------------------

# Files that import one another → why; imports in functions and under TYPE_CHECKING count too.
CIRCLES: dict[tuple[str, ...], str] = {}


def imported_modules(name: str, tree: ast.Module, modules: Iterable[str]) -> Iterator[str]:
    """The files of ours that a file imports anywhere."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            named = [f"{node.module}.{a.name}" for a in node.names]
            yield from {n if n in modules else node.module for n in named} & set(modules) - {name}


def circles(imports: dict[str, set[str]]) -> set[tuple[str, ...]]:
    """Groups of files that reach one another."""
    graph = networkx.DiGraph([(name, other) for name, others in imports.items() for other in others])
    found = [c for c in networkx.strongly_connected_components(graph) if len(c) > 1]
    return {tuple(sorted(n.removeprefix("espalier.") for n in c)) for c in found}


@pytest.mark.slow
def test_no_files_import_one_another() -> None:
    """A circle is read, moved and tested only as a whole; the list holds nothing stale."""
    trees = {module_name(path): tree for path, tree in sources().items() if path != "main.py"}
    assert circles({n: set(imported_modules(n, tree, trees)) for n, tree in trees.items()}) == set(CIRCLES)


def test_circles_are_recognised() -> None:
    """The search above finds circles through imports of each kind."""
    late = ast.parse("def f():\n    from espalier.b import c\nif TYPE_CHECKING:\n    import espalier.d\n")
    modules = {"espalier.a", "espalier.b.c", "espalier.d"}
    assert set(imported_modules("espalier.a", late, modules)) == {"espalier.b.c", "espalier.d"}
    assert circles({"espalier.a": {"espalier.d"}, "espalier.d": {"espalier.a"}, "espalier.b": {"espalier.a"}}) == {
        ("a", "d")
    }


# ---- sizes ---------------------------------------------------------------------------------------------


def test_files_stay_small() -> None:
    """Median and maximum of the lines of a file."""
    sizes = {path: file_lines(path) for path in sources() if not is_marker(path)}
    none(f"{path}: {n} lines" for path, n in sizes.items() if n > FILE_MOST)
    assert statistics.median(sizes.values()) <= FILE_MEDIAN


@pytest.mark.slow
def test_functions_stay_small() -> None:
    """Median and maximum of the lines of a function's body."""
    sizes = {str(d): body_lines(d.node) for d in functions() if isinstance(d.node, Function)}
    none(f"{name}: {n} lines" for name, n in sizes.items() if n > FUNCTION_MOST)
    assert statistics.median(sizes.values()) <= FUNCTION_MEDIAN


@pytest.mark.slow
def test_classes_stay_small() -> None:
    """Maximum of the lines of a class."""
    classes = [d for d in definitions() if isinstance(d.node, ast.ClassDef)]
    sizes = {str(d): (d.node.end_lineno or 0) - d.node.lineno + 1 for d in classes}
    none(f"{name}: {n} lines" for name, n in sizes.items() if n > CLASS_MOST)


# ---- names, docstrings, annotations --------------------------------------------------------------------


def test_modules_say_why_they_exist() -> None:
    """Each module has a docstring of at most four lines."""
    docs = {p: ast.get_docstring(tree) for p, tree in sources().items()}
    none(path for path, text in docs.items() if not text)
    none(path for path, text in docs.items() if text and len(text.splitlines()) > DOCSTRING_MOST)


def test_modules_have_telling_names() -> None:
    """No file is named for being a drawer."""
    vague = ("utils", "util", "manager", "helper", "helpers", "misc", "common")
    none(path for path in sources() if Path(path).stem in vague)


def is_override(d: Definition) -> bool:
    """A method that Qt names (camelCase) or that `@override` marks: its base documents it."""
    decorated = any(ast.unparse(x).endswith("override") for x in d.node.decorator_list)
    return isinstance(d.inside, ast.ClassDef) and (decorated or not d.node.name.islower())


@pytest.mark.slow
def test_public_names_are_documented() -> None:
    """Public classes, functions and methods have a docstring; overrides inherit theirs."""
    none(d for d in definitions() if d.public and not is_override(d) and not ast.get_docstring(d.node))


def is_annotated(d: Definition) -> bool:
    """All parameters but self or cls, and the result."""
    assert isinstance(d.node, Function)
    given = d.node.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    static = any(ast.unparse(x) == "staticmethod" for x in d.node.decorator_list)
    if isinstance(d.inside, ast.ClassDef) and not static:
        named = named[1:]
    named += [a for a in (given.vararg, given.kwarg) if a]
    return d.node.returns is not None and all(a.annotation for a in named)


@pytest.mark.slow
def test_public_functions_are_annotated() -> None:
    """Every parameter and every result of what others may call."""
    none(d for d in functions() if d.public and not is_annotated(d))


# ---- unsafe calls --------------------------------------------------------------------------------------


def unsafe_call(call: ast.Call) -> str | None:
    """The name of the rule a call breaks, if any."""
    name = ast.unparse(call.func)
    keywords = {k.arg: k.value for k in call.keywords}

    def is_true(key: str) -> bool:
        value = keywords.get(key)
        return isinstance(value, ast.Constant) and value.value is True

    if name in ("eval", "exec", "builtins.eval", "builtins.exec"):
        return name.rpartition(".")[2]
    if name.split(".")[0] in ("pickle", "cPickle", "dill", "cloudpickle", "joblib") and "load" in name:
        return "pickle.load"
    if name in ("pickle.Unpickler", "Unpickler") or name == "yaml.load":
        return name
    if name == "torch.load" and not is_true("weights_only"):
        return "torch.load"
    return next((key for key in ("trust_remote_code", "allow_pickle") if is_true(key)), None)


@pytest.mark.slow
def test_nothing_runs_what_a_file_says() -> None:
    """No unpickling, no remote code, no eval or exec outside the allow-list; the list holds nothing stale."""
    found: dict[tuple[str, str], int] = {}
    for path, tree in sources().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and (rule := unsafe_call(node)):
                found[(path, rule)] = node.lineno
            if isinstance(node, ast.ImportFrom) and node.module == "pickle":
                found[(path, "from pickle import")] = node.lineno
    none(f"{key[0]}:{line} {key[1]}" for key, line in found.items() if key not in ALLOWED_CALLS)
    assert set(ALLOWED_CALLS) - set(found) == set()


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("eval(x)", "eval"),
        ("model.eval()", None),
        ("dialog.exec()", None),
        ("pickle.loads(x)", "pickle.load"),
        ("torch.load(f)", "torch.load"),
        ("torch.load(f, weights_only=True)", None),
        ("torch.load(f, weights_only=False)", "torch.load"),
        ("AutoModel.from_pretrained(n, trust_remote_code=True)", "trust_remote_code"),
        ("np.load(f, allow_pickle=True)", "allow_pickle"),
    ],
)
def test_unsafe_calls_are_recognised(text: str, rule: str | None) -> None:
    """The scan above finds what it should, and no namesakes."""
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call) and unsafe_call(call) == rule


# ---- the repository ------------------------------------------------------------------------------------


def test_top_level_is_the_fixed_set() -> None:
    """Rooms are not added by accident."""
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("not a git checkout")
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    top = {name.split("/")[0] for name in listed.split("\0") if name}
    none(sorted(name for name in top if not name.startswith(".") and name not in TOP))


def test_resources_hold_no_code() -> None:
    """Pictures, texts, styles and samples only (a sample model is text that the user's worker runs)."""
    none((ROOT / "resources").rglob("__init__.py"))


@pytest.mark.slow
def test_ours_are_imported_by_the_namespace_alone() -> None:
    """`import model` would be anybody's: the folders are packages of `espalier`, and of nothing else."""
    own, trees = set(PACKAGES) | {"main"}, dict(sources())
    trees |= {f.relative_to(ROOT).as_posix(): ast.parse(f.read_text("utf-8")) for f in (ROOT / "tests").rglob("*.py")}
    none(
        f"{path}:{node.lineno}"
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom) and own & set(imported(node))
    )


def test_the_links_lead_to_all_folders() -> None:
    """What lies in a checkout under `espalier`: links, so that a file is there once."""
    links = {p.name: os.readlink(p) for p in (ROOT / "roots" / "espalier").iterdir() if p.is_symlink()}
    assert links == {name: f"../../{name}" for name in (*PACKAGES, "resources")}
