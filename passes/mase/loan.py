"""What MASE passes may do with `mg` besides changing it: run our passes on it, save it, open another.

The GraphModule stays the same object through all of it, so whoever holds `mg.model` sees what it is now.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from torch import fx, nn

from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph
from espalier.model.leftovers import scratch
from espalier.passes.base import Context, run_step
from espalier.passes.mase.drawing import draw
from espalier.passes.mase.lending import Lent, lend
from espalier.passes.mase.pass_names import NOTHING
from espalier.passes.mase.returning import take_back
from espalier.passes.recipes.config import load_recipe

ENDING = ".espalier"
_CONTEXT: ContextVar[Context] = ContextVar("mase_context")
_LOANS: WeakKeyDictionary[nn.Module, Loan] = WeakKeyDictionary()


class MaseGraph:
    """`mg`: the model as a GraphModule, its graph, its modules."""

    def __init__(self, model: fx.GraphModule) -> None:
        self.model = model

    @property
    def fx_graph(self) -> fx.Graph:
        """The torch.fx graph."""
        return self.model.graph

    @fx_graph.setter
    def fx_graph(self, graph: fx.Graph) -> None:
        """Take another graph over the same modules."""
        self.model.graph = graph

    @property
    def nodes(self) -> Any:
        """The nodes of the torch.fx graph, in order."""
        return self.model.graph.nodes

    @property
    def modules(self) -> dict[str, nn.Module]:
        """Path → module."""
        return dict(self.model.named_modules())

    def draw(self, file: str = "mase_graph.svg") -> None:
        """Draw the torch.fx graph as an SVG file."""
        draw(self.model.graph, str(file))

    def export(self, fname: str = "masegraph") -> None:
        """Write the graph as it is now as the project `fname.espalier`."""
        export(self, str(fname))

    @classmethod
    def from_checkpoint(cls, checkpoint: str) -> MaseGraph:
        """The graph that `export` has written."""
        return from_checkpoint(str(checkpoint))


class Loan:
    """A graph lent to a pass, and what the pass has made of it so far."""

    def __init__(self, lent: Lent, context: Context) -> None:
        self.lent, self.context, self.mg = lent, context, MaseGraph(lent.model)
        _LOANS[lent.model] = self

    def graph(self) -> Graph:
        """The graph as the pass has changed it by now."""
        return take_back(self.lent, self.mg.model, self.context)

    def give(self, graph: Graph) -> None:
        """Lend another graph in the place of this one."""
        fresh, model = lend(graph, self.context), self.mg.model
        _become(model, fresh.model)
        self.lent = replace(fresh, model=model)
        _LOANS[model] = self

    def run(self, step: Step) -> dict[str, Any]:
        """Run a pass of ours; what it reports."""
        before, seed = self.graph(), self.context.seed
        done = run_step(before, step, self.context)
        self.context.seed = seed
        if done.graph is not self.lent.graph:
            self.give(done.graph)
        return {**done.report.summary, "rows": list(done.report.rows)}


def _become(model: fx.GraphModule, other: fx.GraphModule) -> None:
    """Make `model` what `other` is; `other` is no longer of use."""
    training = model.training
    model.__class__ = other.__class__
    model.__dict__.clear()
    model.__dict__.update(other.__dict__)
    model.graph.owning_module = model
    model.train(training)


@contextmanager
def lending(context: Context) -> Generator[None]:
    """While a MASE pass runs with `context`."""
    token = _CONTEXT.set(context)
    try:
        yield
    finally:
        _CONTEXT.reset(token)


def loan_of(given: object) -> Loan:
    """The loan of an `mg`, or of its model; raises PassError."""
    model = given.model if isinstance(given, MaseGraph) else given
    found = _LOANS.get(model) if isinstance(model, nn.Module) else None
    if found is None:
        text = f"A {type(given).__name__} is not the graph that the pass was given."
        raise PassError(text, "Pass mg, or mg.model.")
    return found


def mase_pass(name: str) -> Callable[..., tuple[Any, dict[str, Any]]]:
    """MASE's pass of this name: `(mg, pass_args={}) → (mg, outputs)`, done by ours."""

    def run(graph: Any, pass_args: Any = None, **more: Any) -> tuple[Any, dict[str, Any]]:
        loan = loan_of(graph)
        if name in NOTHING:  # what was put in meanwhile gets its metadata
            now = loan.graph()
            if now is not loan.lent.graph:
                loan.give(now)
            return graph, {}
        outputs: dict[str, Any] = {}
        for step in load_recipe({name: {**(pass_args or {}), **more}}, loan.context.seed).steps:
            outputs |= loan.run(step)
        return graph, outputs

    run.__name__ = name
    return run


def export(mg: MaseGraph, name: str) -> None:
    """Write the graph as it is now as a project, with all its weights."""
    from espalier.model.document.project import Project, save_project
    from espalier.model.sources.info import SourceInfo

    path, loan = _path(name), loan_of(mg)
    graph = loan.graph()
    if not path.parent.is_dir():
        raise PassError(f"There is no folder {path.parent}.", "Make it, or export to another.")
    info = SourceInfo(path.stem, path.stem)
    save_project(Project(info, graph, Recipe(), graph), loan.context.store, path, everything=True)


def from_checkpoint(name: str) -> MaseGraph:
    """Open what `export` has written, or any project or source, as a graph of its own."""
    from espalier.model.opening import open_any

    context = _CONTEXT.get(None)
    if context is None:
        raise PassError("MaseGraph.from_checkpoint works only while a pass runs.", "Call it in the pass.")
    path = _path(name)
    if not path.exists() and path.with_suffix(".pt").exists():
        raise PassError(f"{path.stem}.pt is a checkpoint of MASE, and opening it would run code in it.",
                        "Export the model there with save_pretrained, and open that folder.")  # fmt: skip
    with scratch() as folder:
        other = open_any(str(path) if path.exists() else name, folder)
        graph = other.project.graph
        keys = {w.key for w in graph.weights.values() if w.key}
        held = {k: context.store.hold(other.store.get(k)) for k in keys}
    weights = {n: replace(w, key=held.get(w.key or "")) for n, w in graph.weights.items()}
    return Loan(lend(graph.with_weights(weights), context), context).mg


def _path(name: str) -> Path:
    """As in MASE: what follows a point is no part of the name; ours ends in `.espalier`."""
    path = Path(name).expanduser()
    return path.with_name(path.name.split(".")[0] + ENDING)
