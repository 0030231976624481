"""What the Model, Run and Edit menus do: each asks for options where it has some, then tells the session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from app.panels.options import OptionsWindow, make_form
from model.ops import category
from model.registry import PASSES
from passes.base import NoOptions, PassSpec
from passes.select import Select

if TYPE_CHECKING:
    from app.window import Window

BY_HAND = 200  # more selected nodes than this are named by type instead


def has_dropout(window: Window) -> bool:
    """Whether there is any to remove."""
    document = window.session.document
    return document is not None and any(n.op == "dropout" for n in document.graph)


def run(window: Window, name: str) -> None:
    """Run a pass that needs no options."""
    window.session.run_pass(name, PASSES.get(name).options())


def select_all(window: Window) -> None:
    """Select every node."""
    if window.session.document:
        window.session.select(window.session.document.graph.nodes)


def select_alike(window: Window) -> None:
    """Select all nodes of the selected nodes' types."""
    document = window.session.document
    if document:
        ops = {document.graph.nodes[i].op for i in window.session.selection}
        window.session.select(n.id for n in document.graph if n.op in ops)


def default_select(window: Window) -> Select:
    """The selected nodes, or all linear and convolution layers that the graph has."""
    chosen, document = window.session.selection, window.session.document
    if 0 < len(chosen) <= BY_HAND:
        return Select("name", chosen)
    ops = {n.op for n in document.graph if category(n) == "linear" and "weight" in n.weights} if document else set()
    return Select("type", tuple(sorted(ops)) or ("linear",))


def default_options(window: Window, spec: PassSpec) -> Any:
    """A pass's options as its form first shows them."""
    from model.formats.integer import Integer
    from passes.transform.quantize import QuantizeOptions, Rule

    select = default_select(window)
    if spec.options is QuantizeOptions:
        fmt = Integer(8, 4)
        return QuantizeOptions((Rule(select, {"data_in": fmt, "weight": fmt, "bias": fmt}),))
    options = spec.options()
    if "select" in {f.name for f in fields(options)}:
        return replace(options, select=select)
    return options


def show_options(
    window: Window, spec: PassSpec, options: Any, apply: Callable[[Any], object], verb: str = "Apply"
) -> None:
    """Show the form of a pass's options beside the work."""
    form = make_form(options, window.session)
    OptionsWindow(window, window.session, spec, form, verb, apply).show()


def ask(window: Window, name: str) -> None:
    """Show a pass's options; Apply appends the step."""
    spec: PassSpec = PASSES.get(name)
    show_options(window, spec, default_options(window, spec), lambda o: window.session.run_pass(name, o))


def edit_step(window: Window, index: int) -> None:
    """Show the options of a step that was done; Apply replaces them."""
    document = window.session.document
    step = document.recipe.steps[index] if document else None
    if step is None or step.pass_name not in PASSES:
        return
    spec: PassSpec = PASSES.get(step.pass_name)
    if spec.options is NoOptions:
        window.banner.tell(f"{spec.title} has no options.", "Switch it off, move it or remove it in the recipe.")
        return
    show_options(window, spec, step.options, lambda o: window.session.set_step(index, replace(step, options=o)))


def report(window: Window, name: str) -> None:
    """Make a report and bring the tables up."""
    window.show_dock("tables")
    window.docks.tables.wait_for(name)
    run(window, name)


def evaluate(window: Window) -> None:
    """Measure on the source's own data, or ask which."""
    document = window.session.document
    if document and document.project.source.data:
        window.session.evaluate()
    else:
        evaluate_on(window)


def evaluate_on(window: Window) -> None:
    """Ask for data, then measure."""
    spec: PassSpec = PASSES.get("evaluate")
    document = window.session.document
    data = document.project.source.data if document else None
    options = replace(spec.options(), data=data or "")
    show_options(window, spec, options, lambda o: window.session.evaluate(options=o), "Evaluate")


def toggle_live(window: Window) -> None:
    """Measure after every edit, or only when asked."""
    window.live.enabled = not window.live.enabled


def cancel(window: Window) -> None:
    """Stop the job that runs."""
    running = [j for j in window.session.jobs if j.state == "running"]
    if running:
        window.session.cancel(running[0].id)
