"""Every text of the window that can be translated: from calls of `tr`, from constructors, registries and errors."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple, get_args, get_origin

from espalier.app.explanations import first_paragraph
from espalier.app.features.compare.bars import MODES
from espalier.app.features.search.state.templates import templates
from espalier.app.figures.curves import figure_title
from espalier.app.glossary import COLUMNS, common_words, terms
from espalier.app.number_text import column_title
from espalier.app.shell.sections import SECTIONS
from espalier.kernels.bench.answers.questions import QUESTIONS
from espalier.kernels.bench.spec import KERNELS
from espalier.model.document.codec import hints
from espalier.model.registry import FORMATS, PASSES
from espalier.model.sources.demos import DEMOS
from espalier.passes.costs.base import COSTS
from espalier.passes.search.spec import SearchSpec
from espalier.passes.tasks.base import all_metrics
from tests.reference.markdown import structures
from tests.test_architecture import sources
from tests.texts.cells import SENTENCE, of_cells, of_columns, of_types
from tests.texts.patterns import patterns


class Text(NamedTuple):
    """A text with the first place that it stands at; `plural`: it has forms for numbers."""

    text: str
    place: str
    plural: bool = False


# Constructors that translate what they are given: positions, then keywords; "/" separates the names of menus.
CONSTRUCTORS: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
    "Action": ((1, 2), ("title", "menu", "help", "section", "tool")),
    "Fact": ((0,), ()),
    "Option": ((0,), ()),
    "figure_option": ((0,), ()),
    "Column": ((1,), ()),
    "titled": ((0,), ()),
    "_row": ((0,), ()),
    "row": ((0,), ()),
    "Chips": ((1,), ()),
}
NUMERUS = {"plural": "%n {}", "counted": "{}"}  # functions of a number and a noun or text
KEYED = ("Pages",)  # constructors that translate the keys of a dict
# Constants whose texts are also identities: they stay English there, and are translated where they are shown.
IDENTITIES: dict[str, tuple[str, ...]] = {
    "app/canvas/colouring.py": ("TRAINS",),
    "app/canvas/fold_metrics.py": ("KINDS",),
    "app/features/compare/panel.py": ("FORMS",),
    "app/features/inspector/activations.py": ("RULES",),
    "app/features/inspector/adapter.py": ("FIELDS",),
    "app/features/inspector/parallel.py": ("AXES",),
    "app/features/inspector/scope.py": ("THIS",),
    "app/features/options/structured_preview.py": ("COLUMNS",),
    "app/features/search/charts/choice_map.py": ("name", "SHOWN"),
    "app/features/search/charts/comparison.py": ("name",),
    "app/features/search/charts/history.py": ("name",),
    "app/features/search/charts/importance.py": ("name",),
    "app/features/search/charts/intermediate.py": ("name",),
    "app/features/search/charts/parallel.py": ("name",),
    "app/features/search/charts/scatter.py": ("name",),
    "app/features/search/charts/timeline.py": ("name", "KINDS"),
    "app/features/search/state/trial_rows.py": ("FIGURES",),
    "app/features/search/entry.py": ("ALWAYS",),
    "app/figures/difference.py": ("SCORED",),
    "app/figures/study/labels.py": ("STATES", "LOST", "UNMEASURED"),
    "app/number_text.py": ("NOT_MEASURED", "_TITLES"),
    "app/theme.py": ("CATEGORIES", "TAGS"),
    "app/widgets/forms/fields.py": ("MIXED",),
    "passes/figure.py": ("BASELINES", "OPENED"),
    "passes/structure/summary.py": ("_WORDS",),
}
CHOICES = ("Choice",)  # fields that translate their values, if they have no texts
ALL = ("passes/structure/summary.py", "passes/running/data_fit.py")  # modules whose sentences are all shown
RAISED = ("Failed", "Problem", "Impossible", "Damage", "Progress", "Unsafe", "BitField")
LINES, KERNELS_ = ("Line", "BitStep"), "kernels/bench/answers/"  # of answers about kernels
GENERATING = ("verilog/", "kernels/fake_quant/")  # what their functions return is mostly source text
NOTED = ("warning", "note", "why", "remark")  # keys of summaries whose texts the window shows


def name_of(call: ast.Call) -> str:
    """The last part of what a call names."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def constants(node: ast.AST) -> Iterator[str]:
    """All texts below a node, but for the keys of dicts."""
    keys = {id(k) for n in ast.walk(node) if isinstance(n, ast.Dict) for k in n.keys}
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in keys:
            yield each.value


def of_window() -> Iterator[Text]:
    """Texts in the source of the window."""
    for path, tree in sources().items():
        if path.startswith("app/"):
            for node in ast.walk(tree):
                yield from (Text(t, path, plural) for t, plural in _texts(node))
        yield from (Text(t, path) for n in tree.body for t in _identities(path, n))


def _texts(node: ast.AST) -> Iterator[tuple[str, bool]]:
    if not isinstance(node, ast.Call):
        return
    name = name_of(node)
    if name == "tr" and node.args and isinstance(node.args[0], ast.Constant):
        yield str(node.args[0].value), False
    elif name == "translated":
        yield from ((t, False) for t in constants(node.args[0]))
    elif name in NUMERUS and len(node.args) > 1:
        yield from ((NUMERUS[name].format(t), True) for t in _branches(node.args[1]))
    elif name in KEYED and node.args and isinstance(node.args[0], ast.Dict):
        yield from ((k.value, False) for k in node.args[0].keys if isinstance(k, ast.Constant))
    elif name in CHOICES and len(node.args) == 1:
        yield from ((t.replace("_", " "), False) for t in constants(node.args[0]))
    elif name == "show_rows":
        dicts = (d for d in ast.walk(node) if isinstance(d, ast.Dict))
        yield from ((column_title(str(k.value)), False) for d in dicts for k in d.keys if isinstance(k, ast.Constant))
    elif name in CONSTRUCTORS:
        at, keywords = CONSTRUCTORS[name]
        given = [node.args[i] for i in at if i < len(node.args)]
        given += [k.value for k in node.keywords if k.arg in keywords]
        for text in (t for g in given for t in _branches(g)):
            yield from ((t, False) for t in text.split("/"))


def _branches(node: ast.AST) -> Iterator[str]:
    """The texts that an argument may be."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=body, orelse=other):
            yield from (*_branches(body), *_branches(other))
        case _:
            return


def _identities(path: str, node: ast.stmt) -> Iterator[str]:
    names = IDENTITIES.get(path, ())
    for each in ast.walk(node) if names else ():
        targets = (
            each.targets if isinstance(each, ast.Assign) else [each.target] if isinstance(each, ast.AnnAssign) else []
        )
        if any(isinstance(t, ast.Name) and t.id in names for t in targets) and each.value is not None:  # type: ignore[attr-defined]
            value = each.value  # type: ignore[attr-defined]
            yield from constants(value)
            yield from (str(k.value) for k in getattr(value, "keys", ()) if isinstance(k, ast.Constant))


def of_messages() -> Iterator[Text]:
    """Errors with their hints, what jobs say of their progress, and what functions below the window return."""
    for path, tree in sources().items():
        if "/commands/" not in path and not path.startswith(("app/api", "app/commands", "app/cli", "app/interpreter")):
            for node in ast.walk(tree):
                found = _messages(node, path)
                yield from (Text(t, path) for each in found for t in patterns(each) if has_letters(t))
            yield from (Text(t, path) for t in (*of_cells(path, tree), *of_columns(path, tree)))
    yield from (Text(t, "cell") for t in of_types())


def _messages(node: ast.AST, path: str) -> Iterator[ast.AST]:
    """The expressions of messages in a node."""
    match node:
        case ast.Call():
            name = name_of(node)
            if name.endswith("Error") or name in (*RAISED, "progress") or (name in LINES and path.startswith(KERNELS_)):
                yield from (*node.args, *(k.value for k in node.keywords))
        case ast.Return(value=ast.expr() as value) | ast.Yield(value=ast.expr() as value):
            if not path.startswith(GENERATING):
                yield from (ast.Constant(t) for t in patterns(value) if SENTENCE.search(t))
        case ast.Dict(keys=keys, values=values):
            yield from (
                v for k, v in zip(keys, values, strict=True) if isinstance(k, ast.Constant) and k.value in NOTED
            )
        case ast.Constant() | ast.JoinedStr() if path in ALL:
            yield from (ast.Constant(t) for t in patterns(node) if SENTENCE.search(t) and "\n" not in t)
        case _:
            return


def of_registries() -> Iterator[Text]:
    """Titles, helps and options of passes, costs, metrics and formats; terms of the glossary; columns."""
    own = [spec for name, spec in PASSES.items() if PASSES.is_own(name)]
    for spec in own:
        first = spec.doc.split("\n\n")[0].replace("\n", " ")
        about = (spec.title, spec.doc.split("\n")[0], first, first_paragraph(spec.doc))
        yield from (Text(t, f"pass {spec.name}") for t in about)
    for cost in (c for n, c in COSTS.items() if COSTS.is_own(n)):
        yield from (Text(t, f"cost {cost.name}") for t in (cost.title, cost.about, cost.unit))
    for metric in all_metrics().values():
        yield from (Text(t, f"metric {metric.name}") for t in (metric.title, metric.help))
    for fmt in (f for n, f in FORMATS.items() if FORMATS.is_own(n)):
        yield from (Text(t, f"format {fmt.name}") for t in (fmt.title, first_paragraph(inspect.getdoc(fmt))))
    for kind in (
        SearchSpec,
        *(s.options for s in own),
        *structures([SearchSpec]),
        *structures(s.options for s in own),
        *(f for _, f in FORMATS.items()),
    ):
        yield from (Text(t, f"option of {kind.__name__}") for t in _options(kind))
    yield from (Text(mode.capitalize(), "app/features/compare/bars.py") for mode in MODES)
    yield from (Text(title, "menu Model") for title in SECTIONS)
    for demo in DEMOS.values():
        yield from (Text(t, f"demo {demo.name}") for t in (demo.title, demo.description))
    for template in templates():
        yield from (Text(t, f"template {template.title}") for t in (template.title, template.about))
        yield Text(template.path.stem.replace("-", " ").capitalize(), "menu Search")
    yield from (Text(figure_title(name), "figure") for name in (*all_metrics(), *(n for n, _ in COSTS.items())))
    yield from _of_kernels()
    for lines in (terms(), *common_words().values()):
        yield from (Text(line, "glossary") for line in lines.values())
    yield from (Text(column_title(key), COLUMNS) for key in common_words()["column"])


def _of_kernels() -> Iterator[Text]:
    for kernel in (k for n, k in KERNELS.items() if KERNELS.is_own(n)):
        info = kernel.info() if hasattr(kernel, "info") else kernel
        parts = (info.title, info.about, info.family, *(v.about for v in info.versions))
        yield from (Text(t, f"kernel {info.name}") for t in (*parts, info.title.removeprefix(f"{info.family}, ")))
    for question in QUESTIONS:
        texts_ = (question.name, question.title, question.measures, *question.text, *question.formulas)
        yield from (Text(t, f"question {question.key}") for t in texts_)


def _options(kind: Any) -> Iterator[str]:
    if not dataclasses.is_dataclass(kind):
        return
    yield kind.__name__.lower()
    types = hints(kind)
    for field in dataclasses.fields(kind):
        yield field.name.replace("_", " ")
        yield from (str(field.metadata[k]) for k in ("help", "hint", "empty") if field.metadata.get(k))
        for part in (types[field.name], *get_args(types[field.name])):
            if get_origin(part) is Literal:
                yield from (str(v).replace("_", " ") for v in get_args(part))


def has_letters(text: str) -> bool:
    """Whether there is anything to translate."""
    return any(c.isalpha() for c in text.replace("{}", "").replace("%n", ""))


def texts() -> dict[tuple[str, bool], Text]:
    """Every text once, sorted."""
    found: dict[tuple[str, bool], Text] = {}
    for each in (*of_window(), *of_registries(), *of_messages()):
        if has_letters(each.text):
            found.setdefault((each.text, each.plural), each)
    return dict(sorted(found.items()))


def unique(found: Iterable[Text]) -> set[str]:
    """The texts alone."""
    return {t.text for t in found}
