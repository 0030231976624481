"""Passes of plug-ins as plain data: the window shows and edits what it never runs.

The worker describes its plug-ins' passes; the window registers a stand-in for each, with a form, and keeps the options
of its steps as JSON (`Raw`), which the worker turns into the plug-in's own type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields, make_dataclass
from typing import Any, Literal, get_args, get_origin

from espalier.model.document.codec import decode, encode, hints
from espalier.model.document.recipe import Raw, Recipe
from espalier.model.errors import EspalierError, PassError
from espalier.model.graph.graph import Graph
from espalier.model.registry import PASSES
from espalier.passes.base import Context, PassSpec, Report

HOMES = ("builtins", "types", "typing", "espalier.model", "espalier.passes")  # packages that both processes know


@dataclass(frozen=True, slots=True)
class OfferedField:
    """One option; `default` is JSON, and there is none for a required one."""

    name: str
    kind: Any
    required: bool
    default: Any
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class OfferedPass:
    """A plug-in's pass without its code; `lasting` and `timed` as of PassSpec."""

    name: str
    kind: Literal["analysis", "transform"]
    title: str
    doc: str
    fields: tuple[OfferedField, ...]
    lasting: bool = False
    timed: bool = False


@dataclass(frozen=True, slots=True)
class PluginState:
    """A plug-in file or package: what it registered, or why it could not be loaded."""

    source: str
    passes: tuple[OfferedPass, ...] = ()
    formats: tuple[str, ...] = ()
    error: str = ""
    hint: str = ""
    costs: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()  # prefixes of data
    others: tuple[str, ...] = ()  # "hardware rule leaky_relu"


# -- in the worker


def describe(spec: PassSpec) -> OfferedPass:
    """A pass as data; kinds of value that only the plug-in knows become JSON."""
    known = hints(spec.options)
    options = [_describe(f, known[f.name]) for f in fields(spec.options) if f.init]
    return OfferedPass(spec.name, spec.kind, spec.title, spec.doc, tuple(options), spec.lasting, spec.timed)


def _describe(option: Field[Any], kind: Any) -> OfferedField:
    required = option.default is MISSING and option.default_factory is MISSING
    value = option.default if option.default_factory is MISSING else option.default_factory()
    metadata = {k: v for k, v in option.metadata.items() if k in ("min", "max", "help")}
    kind = kind if _is_shared(kind) else Any
    return OfferedField(option.name, kind, required, None if required else encode(value), metadata)


def _is_shared(kind: Any) -> bool:
    if isinstance(kind, type) and not f"{kind.__module__}.".startswith(tuple(f"{h}." for h in HOMES)):
        return False
    return all(_is_shared(k) for k in get_args(kind))


# -- in the window


def stand_in(offered: OfferedPass) -> PassSpec:
    """What the window registers: the same name, title and form."""
    options = make_dataclass(
        f"{offered.name}_options",
        [(o.name, o.kind, field(default_factory=_first(o), metadata=o.metadata)) for o in offered.fields],
        namespace={"OFFERED": True},
        frozen=True,
    )
    return PassSpec(
        offered.name, offered.kind, options, _elsewhere, offered.title, offered.doc, instant=False,
        lasting=offered.lasting, timed=offered.timed,
    )  # fmt: skip


def _first(option: OfferedField) -> Callable[[], Any]:
    """What makes the value that a form first shows."""
    if not option.required:
        return lambda: decode(option.kind, option.default)
    if get_origin(option.kind) is Literal:
        return lambda: get_args(option.kind)[0]
    return option.kind if option.kind in (bool, int, float, str) else lambda: None


def _elsewhere(graph: Graph, options: Any, context: Context) -> tuple[Graph, Report]:
    raise PassError("A plug-in's pass runs in the worker.", "Run it as a job.")


def kept(options: Any) -> Any:
    """Options as a step keeps them: those of a stand-in as JSON, all others as they are."""
    if not getattr(type(options), "OFFERED", False):
        return options
    return Raw({f.name: encode(getattr(options, f.name)) for f in fields(options)})


def typed(name: str, options: Any) -> Any:
    """Options as a form shows them; raises OptionsError where a plug-in's options have changed since."""
    return decode(PASSES.get(name).options, options.data) if isinstance(options, Raw) else options


# -- what is not there


def missing_passes(recipe: Recipe) -> tuple[str, ...]:
    """Passes that a recipe names and that are not registered, each once."""
    return tuple(dict.fromkeys(s.pass_name for s in recipe.steps if s.pass_name not in PASSES))


def missing_notice(recipe: Recipe, hint: str) -> EspalierError | None:
    """One notice that names the passes that a recipe needs and that are not here; None where all are."""
    names = missing_passes(recipe)
    if not names:
        return None
    what = f"the pass {names[0]}, which is" if len(names) == 1 else f"the passes {', '.join(names)}, which are"
    return PassError(f"The recipe has {what} not available.", f"The steps are kept as they are. {hint}")
