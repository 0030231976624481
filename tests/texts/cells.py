"""Texts that passes put into cells and figures of reports: sentences of their functions, and words of text columns."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import get_args, get_type_hints

from espalier.app.cell_text import LEADS, TEXTS
from espalier.app.number_text import column_title
from espalier.model.graph.meta import Weight
from espalier.passes.structure.sets import Kind
from tests.texts.patterns import patterns

SENTENCE = re.compile(r"[a-z]{2,} (?:\{\} )?[a-z]{2,}")
# Functions whose short texts are in cells too.
WORDS = {
    "passes/analysis/memory.py": ("_values", "_floats", "_plural", "_rest", "_run"),
    "passes/export/targets/report.py": ("export_targets",),
    "passes/transform/remove_pruned.py": ("_row",),
    "passes/transform/replace_linear.py": ("replace_linear",),
}
REPORTING = tuple(f"passes/{p}" for p in (
    "analysis/", "transform/", "recovery/", "comparison/", "running/", "sharding/", "structure/", "timed/", "score.py",
    "figure.py",
))  # fmt: skip
FURTHER = (  # names that are composed, or of constants
    "longest", "runtime", "texts_cut", "tokens_lost", "worst", "worst_output", "worst_output_sqnr_db", "worst_sqnr_db",
)  # fmt: skip
COLUMN = re.compile(r"[a-z][a-z0-9_]*")
NODES = "app/features/nodes/rows.py"  # whose rows have texts of text columns too
GENERATING = ("passes/export/sharded/scripts.py", "passes/export/script.py", "passes/mase/")  # write files or code
REMARKS = ("remark", "_remarks")  # functions of hardware


def of_cells(path: str, tree: ast.Module) -> Iterator[str]:
    """The texts of a module that can stand in a cell."""
    if path.startswith("passes/") and not path.startswith(GENERATING):
        yield from (t for each in _constants(tree) for t in patterns(each) if SENTENCE.search(t))
        yield from (t for each in _under_text_columns(tree) for t in patterns(each))
    if path == NODES:
        below = (n for v in _under_text_columns(tree) for n in ast.walk(v))
        yield from (t for each in below for t in patterns(each))
    for function in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)):
        if path.startswith("passes/") and not path.startswith(GENERATING):
            words = function.name in WORDS.get(path, ())
            found = (t for each in _literals(function) for t in patterns(each))
            yield from (t for t in found if "\n" not in t and (words or SENTENCE.search(t)))
        elif path.startswith("verilog/") and function.name in REMARKS:
            yield from (t for each in _literals(function) for t in patterns(each) if SENTENCE.search(t))


def of_columns(path: str, tree: ast.Module) -> Iterator[str]:
    """Titles of the columns and figures of a module's reports."""
    for node in ast.walk(tree) if path.startswith(REPORTING) else ():
        match node:
            case ast.Dict(keys=keys):
                found = [k.value for k in keys if isinstance(k, ast.Constant)]
            case ast.Subscript(slice=ast.Constant(value=key), ctx=ast.Store()):
                found = [key]
            case ast.Call(func=ast.Name(id="dict"), keywords=words):
                found = [w.arg for w in words]
            case _:
                found = []
        yield from (column_title(k) for k in found if isinstance(k, str) and COLUMN.fullmatch(k))


def of_types() -> Iterator[str]:
    """Words of text columns that are values of types, what stands before a colon, and further columns."""
    yield from map(column_title, FURTHER)
    yield from (*get_args(Kind), *get_args(get_type_hints(Weight)["role"]), *LEADS)


def _constants(tree: ast.Module) -> Iterator[ast.AST]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            yield node.value


def _under_text_columns(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            yield from (v for k, v in pairs if isinstance(k, ast.Constant) and k.value in TEXTS)


def _literals(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Literals of a function, f-strings whole, without docstrings and what it is decorated with."""
    below = [n for part in function.body for n in ast.walk(part)]
    left_out = {id(n.value) for n in ast.walk(function) if isinstance(n, ast.Expr)}
    left_out |= {id(p) for n in below if isinstance(n, ast.JoinedStr) for p in n.values if isinstance(p, ast.Constant)}
    yield from (n for n in below if isinstance(n, ast.Constant | ast.JoinedStr) and id(n) not in left_out)
