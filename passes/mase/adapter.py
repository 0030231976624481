"""A MASE function as a pass of ours: registered under its own name, run on a lent graph."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from espalier.model.errors import EspalierError, GraphError, PassError
from espalier.model.graph.graph import Graph
from espalier.model.registry import PASSES, shown
from espalier.passes.base import Context, PassSpec, Report, Row
from espalier.passes.mase.stand_in import chop_importable
from espalier.passes.plugins.user_error import user_error

if TYPE_CHECKING:
    from espalier.passes.mase.loan import MaseGraph

MasePass = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class MaseOptions:
    """What the pass receives as `pass_args`; a recipe may write them without the name `args`."""

    FREE: ClassVar[bool] = True
    args: dict[str, Any] = field(
        default_factory=dict,  # type: ignore[assignment]
        metadata={"help": "what the function receives as pass_args"},
    )


def register(function: MasePass, file: Path) -> PassSpec:
    """Make `function` a pass. One that calls itself an analysis may not change the graph."""
    name = function.__name__
    kind: Literal["analysis", "transform"] = "analysis" if "analysis" in name else "transform"
    doc = (function.__doc__ or "").strip() or f"{name} of {file.name}."
    title = name.removesuffix("_pass").replace("_", " ").capitalize()

    def run(graph: Graph, options: MaseOptions, context: Context) -> tuple[Graph, Report]:
        return run_mase_pass(function, file, graph, options, context)

    source = shown(str(file), function.__code__.co_firstlineno)
    return PASSES.add(name, PassSpec(name, kind, MaseOptions, run, title, doc, False), source=source)


def run_mase_pass(
    function: MasePass, file: Path, graph: Graph, options: MaseOptions, context: Context
) -> tuple[Graph, Report]:
    """Lend `graph` to `function` and take it back; what the function raises becomes one PassError with its line."""
    from espalier.passes.mase.lending import lend
    from espalier.passes.mase.loan import Loan, MaseGraph, lending, loan_of
    from espalier.passes.mase.returning import take_back

    loan = Loan(lend(graph, context), context)
    with chop_importable(), lending(context):
        result = _call(function, file, loan.mg, options)
    mg, outputs = _result(function.__name__, result)
    known = isinstance(mg, MaseGraph) and mg is not loan.mg
    lent = loan_of(mg).lent if known else loan.lent  # another graph, of a checkpoint
    after = take_back(lent, getattr(mg, "model", None) or lent.model, context)
    return (graph if not after.delta(graph) and after == graph else after), _report(function.__name__, outputs)


def _call(function: MasePass, file: Path, mg: MaseGraph, options: MaseOptions) -> Any:
    try:
        return function(mg, pass_args=copy.deepcopy(options.args))
    except EspalierError:
        raise
    # The user's own code may raise anything, SystemExit too.
    except (Exception, SystemExit) as error:
        erased = _erased(function.__name__, error)
        raise erased or user_error(function.__name__, error, file) from error


def _result(name: str, result: Any) -> tuple[Any, Any]:
    if isinstance(result, tuple) and len(cast("tuple[Any, ...]", result)) == 2:
        return cast("tuple[Any, Any]", result)
    raise PassError(f"{name} returned {type(result).__name__}.", "It must return (mg, outputs).")


_ERASED = re.compile(r"Tried to erase Node (\S+) but it still had \d+ users in the graph: \{(.*)\}")


def _erased(name: str, error: BaseException) -> GraphError | None:
    found = _ERASED.search(str(error))
    if found is None:
        return None
    users = ", ".join(u.partition(":")[0].strip() for u in found.group(2).split(","))
    hint = "Re-wire its users first (replace_all_uses_with)."
    return GraphError(f"{name} erases {found.group(1)}, which is still used by {users}.", hint, found.group(1))


# -- outputs


def _report(name: str, outputs: Any) -> Report:
    summary = {str(k): plain(v) for k, v in outputs.items()} if isinstance(outputs, Mapping) else {}
    if not summary and outputs is not None and not isinstance(outputs, Mapping):
        summary = {"output": plain(outputs)}
    return Report(name, _rows(summary), summary)


def _rows(summary: Row) -> tuple[Row, ...]:
    """A table for what is one: a list of dicts, or a dict of dicts by name."""
    for value in summary.values():
        if isinstance(value, list) and value and all(isinstance(v, dict) for v in cast("list[Any]", value)):
            return tuple(cast("list[Row]", value))
    return tuple({"name": k, "value": v} for k, v in summary.items())


def plain(value: Any) -> Any:
    """Numbers, texts, lists and dicts as they are; tensors as numbers or their shape; the rest as text."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            return {str(k): plain(v) for k, v in cast("Mapping[Any, Any]", value).items()}
        case list() | tuple() | set() | frozenset():
            return [plain(v) for v in cast("list[Any]", value)]
        case _ if hasattr(value, "shape") and hasattr(value, "dtype"):
            return value.item() if not value.shape else f"tensor {' × '.join(map(str, value.shape))} {value.dtype}"
        case _:
            return str(value)
