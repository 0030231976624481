"""What the Model, Run and Edit menus do: each asks for options where it has some, then tells the session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from PySide6.QtWidgets import QMenu

from espalier.app.features.options.panel import OptionsWindow, make_form
from espalier.app.words import duration
from espalier.model.document.recipe import Step
from espalier.model.errors import EspalierError, OptionsError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import category, decomposable
from espalier.model.registry import PASSES
from espalier.passes.base import NoOptions, PassSpec
from espalier.passes.recipes.offered import kept, typed
from espalier.passes.select import Select

if TYPE_CHECKING:
    from espalier.app.shell.window import Window
    from espalier.passes.jobs.kinds import JobInfo

BY_HAND = 200  # more selected nodes than this are named by type instead
# The Model menu: section → passes in the order in which they are usually run. What is not named here comes last.
SECTIONS: dict[str, tuple[str, ...]] = {
    "Quantise": ("quantize",),
    "Calibrate": ("calibrate", "learn_scales"),
    "Recover": ("mse_clip", "smoothquant", "gptq", "bias_correction"),
    "Train": ("finetune",),
    "Adapt": ("lora", "load_adapter", "take_weights", "fuse_lora", "freeze", "unfreeze"),
    "Prune": ("prune", "prune_structured", "prune_activations", "remove_pruned"),
    "Simplify": ("remove_layers", "replace_linear", "remove_dropout", "fold_batch_norm", "decompose_attention"),
    "Deploy": ("pack_mx",),
    "Hardware": ("hardware_functions", "parallelize", "balance_parallelism"),
}
OTHER = "Other"
# Passes that take one kind of node: others that happen to be selected are no subject of theirs.
TAKES: dict[str, Callable[[Node], bool]] = {
    "decompose_attention": decomposable,
    "replace_linear": lambda n: n.op == "linear",
    "pack_mx": lambda n: n.op == "linear",
    "fold_batch_norm": lambda n: n.op == "batch_norm",
}
PANELS = {"finetune": "training"}  # passes with a panel of their own in place of a form
# Sections whose passes' reports are shown as a table.
TOLD = ("Calibrate", "Recover", "Train", "Deploy", "Hardware", OTHER)


def sections() -> dict[str, list[PassSpec]]:
    """The transforms of the program itself by section of the Model menu."""
    found = {n: s for n, s in PASSES.items() if s.kind == "transform"}
    named = {n: title for title, names in SECTIONS.items() for n in names}
    listed = {title: [found[n] for n in names if n in found] for title, names in SECTIONS.items()}
    return listed | {OTHER: [s for n, s in found.items() if n not in named]}


def section_of(name: str) -> str:
    """The section of the Model menu that a pass belongs to."""
    return next((title for title, names in SECTIONS.items() if name in names), OTHER)


def has_dropout(window: Window) -> bool:
    """Whether there is any to remove."""
    document = window.session.document
    return document is not None and any(n.op == "dropout" for n in document.graph)


def run_plugin(window: Window, name: str) -> None:
    """Run a plug-in's pass, after asking for its options if it has any; an analysis makes a table."""
    spec: PassSpec = PASSES.get(name)

    def go(options: Any) -> None:
        if spec.kind == "analysis":
            window.show_dock("tables")
            window.docks.tables.wait_for(name)
        window.session.run_pass(name, options)

    options = default_options(window, spec)
    if fields(options):
        show_options(window, spec, options, go, "Run" if spec.kind == "analysis" else "Apply")
    else:
        go(options)


def fill_plugins(window: Window, menu: QMenu) -> None:
    """List the passes of plug-ins."""
    menu.clear()
    held = window.session.document is not None
    for spec in window.plugins.specs:
        action = menu.addAction(spec.title.replace("&", "&&"), lambda n=spec.name: run_plugin(window, n))
        action.setToolTip(spec.doc.split("\n")[0])
        action.setEnabled(held)
    if not window.plugins.specs:
        menu.addAction("No plug-in with a pass is loaded").setEnabled(False)


def show_plugins(window: Window) -> None:
    """Show the list of plug-ins."""
    from espalier.app.shell.plugins_window import PluginsWindow

    made = PluginsWindow(window)
    made.show()
    made.activateWindow()  # a window of tools does not get the keys everywhere


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
    if chosen := selected(window):
        return chosen
    document = window.session.document
    ops = {n.op for n in document.graph if category(n) == "linear" and "weight" in n.weights} if document else set()
    return Select("type", tuple(sorted(ops)) or ("linear",))


def selected(window: Window) -> Select | None:
    """The selected nodes; None where there are none, or too many to name."""
    chosen = window.session.selection
    return Select("name", chosen) if 0 < len(chosen) <= BY_HAND else None


def default_options(window: Window, spec: PassSpec) -> Any:
    """A pass's options as its form first shows them: for the selected nodes, on the data that the score is of."""
    from espalier.model.formats.integer import Integer
    from espalier.passes.choices.prune import PruneOptions
    from espalier.passes.choices.quantize import QuantizeOptions, Rule

    if spec.options is QuantizeOptions:
        fmt = Integer(8, 4)
        return QuantizeOptions((Rule(default_select(window), {"data_in": fmt, "weight": fmt, "bias": fmt}),))
    options = spec.options()
    names = {f.name for f in fields(options)}
    chosen = default_select(window) if spec.options is PruneOptions else _taken(window, spec.name)
    if spec.name == "remove_pruned":  # what is masked lies elsewhere than what happens to be selected
        chosen = None
    if "select" in names and chosen:
        options = replace(options, select=chosen)
    document = window.session.document
    if spec.name == "pack_mx" and document and not any(_in_mxint(n) for n in document.graph):
        options = replace(options, width="8")  # as they are they could not be packed
    if spec.name == "prune_structured" and chosen and document:
        options = _present(document.graph, options)
    known = window.session.measured_on
    if "data" in names and known.data:
        options = replace(options, **{n: v for n, v in known.which.items() if n in names})
    return options


def _taken(window: Window, name: str) -> Select | None:
    """The selected nodes that a pass can take; None where it can take none of them, or takes all kinds."""
    document, chosen, takes = window.session.document, selected(window), TAKES.get(name)
    if document is None or chosen is None or takes is None:
        return chosen
    able = tuple(i for i in chosen.values if takes(document.graph.nodes[i]))
    return Select("name", able) if able else None


def _in_mxint(node: Node) -> bool:
    from espalier.model.formats.mxint import MXInt

    chosen = node.precision.get("weight")
    return chosen is not None and isinstance(chosen.format, MXInt)


def _present(graph: Graph, options: Any) -> Any:
    """Structured pruning of a kind of unit that the selected nodes have."""
    from espalier.app.figures.structure import STRUCTURES
    from espalier.passes.structure.preview import kinds_of

    try:
        kinds = kinds_of(STRUCTURES.of(graph), options.select)
    except EspalierError:  # the form tells it
        return options
    return options if options.what in kinds or not kinds else replace(options, what=kinds[0])


def show_options(
    window: Window,
    spec: PassSpec,
    options: Any,
    apply: Callable[[Any], object],
    verb: str = "Apply",
    about: object = None,
) -> None:
    """Show the form of a pass's options beside the work: one form for one pass, or for one step (`about`)."""
    subject = (spec.name, about)
    held = next((p for p in window.findChildren(OptionsWindow) if p.subject == subject and not p.isHidden()), None)
    if held:
        held.offer(options)
        return
    form = make_form(options, window.session)
    made = OptionsWindow(window, window.session, spec, form, verb, apply, subject)
    if isinstance(about, Step):
        made.sweepable = True
        made.sweep_wanted.connect(lambda path: _sweep(window, about, path))
    made.show()


def sweep_step(window: Window, index: int) -> None:
    """Begin a sweep of the step at a place in the recipe as it is edited."""
    _sweep(window, window.session.recipe.steps[index])


def _sweep(window: Window, step: Step, path: str | None = None) -> None:
    """Begin a sweep of an option of a step, wherever it stands by now: sweeps are of the recipe that is done."""
    place = next((i for i, s in enumerate(window.session.open_document.recipe.steps) if s is step), None)
    if place is None:
        window.banner.tell("This step is not done yet, or has been changed.", "Sweep it when the recipe is done.")
    else:
        window.docks.sweep(place, path)


def train(window: Window, options: Any) -> None:
    """Append a training to the recipe; its plots and its report are shown."""
    window.docks.tables.expect("finetune")
    window.session.run_pass("finetune", options)


def ask(window: Window, name: str) -> None:
    """Show a pass's options, if it has any; Apply appends the step, and its report is shown when it is done."""
    spec: PassSpec = PASSES.get(name)
    if name in PANELS:
        window.docks.enter(PANELS[name])
        return

    def go(options: Any) -> None:
        if section_of(name) in TOLD:
            window.docks.tables.expect(name)
        window.session.run_pass(name, options)

    if spec.options is NoOptions:
        go(spec.options())
    else:
        show_options(window, spec, default_options(window, spec), go)


def edit_step(window: Window, index: int) -> None:
    """Show the options of a step that was done; Apply replaces them."""
    step = window.session.recipe.steps[index]
    if step.pass_name not in PASSES:
        text = f"The pass {step.pass_name} is not available, so its options cannot be edited."
        window.banner.tell(text, "Add its plug-in under Model → Plug-ins…, or switch the step off.")
        return
    spec: PassSpec = PASSES.get(step.pass_name)
    if spec.options is NoOptions:
        window.banner.tell(f"{spec.title} has no options.", "Switch it off, move it or remove it in the recipe.")
        return
    try:
        options = typed(step.pass_name, step.options)
    except OptionsError as error:  # the plug-in has other options by now
        window.banner.error(error)
        options = spec.options()
    show_options(window, spec, options, lambda o: _replace_step(window, step, kept(o)), about=step)


def _replace_step(window: Window, step: Step, options: Any) -> None:
    """Give a step other options, wherever it stands by now; raises OptionsError when it has gone."""
    places = [i for i, s in enumerate(window.session.recipe.steps) if s is step]
    if not places:
        raise OptionsError("This step has been changed or removed.", "Close the form and open it again.")
    window.session.set_step(places[0], replace(step, options=options))


def report(window: Window, name: str) -> None:
    """Make a report as it was made last; one that can use data is asked for them first where none are known."""
    held = window.docks.tables.used.get(name)
    options = default_options(window, PASSES.get(name)) if held is None else held
    if held is None and getattr(options, "data", None) == "":
        report_on(window, name)
    else:
        make_report(window, name, options)


def make_report(window: Window, name: str, options: Any) -> None:
    """Make a report with these options and bring the tables up."""
    window.show_dock("tables")
    window.docks.tables.used[name] = options
    window.docks.tables.wait_for(name)
    window.session.run_pass(name, options)


def show_step_report(window: Window, name: str) -> None:
    """Bring the table of a step that was asked for to the front; of a training its plots stay there."""
    if section_of(name) != "Train":
        window.show_dock("tables")


def report_on(window: Window, name: str) -> None:
    """Ask for a report's options, such as its data, then make it."""
    spec: PassSpec = PASSES.get(name)
    options = window.docks.tables.used.get(name) or default_options(window, spec)
    show_options(window, spec, options, lambda o: make_report(window, name, o), "Run")


def evaluate(window: Window) -> None:
    """Measure on the data in use or the source's own, or ask which."""
    if window.session.measured_on.data:
        window.session.evaluate()
    else:
        evaluate_on(window)


def evaluate_on(window: Window) -> None:
    """Ask for data, then measure."""
    spec: PassSpec = PASSES.get("evaluate")
    options = window.session.measured_on

    def measure(wish: Any) -> None:
        if not wish.data:
            raise OptionsError("There is no data to measure on.", "Choose a file or folder, or name a demo.")
        window.session.evaluate(options=wish)

    show_options(window, spec, options, measure, "Evaluate")


def toggle_live(window: Window) -> None:
    """Measure after every edit, or only when asked."""
    window.live.enabled = not window.live.enabled


def live_words(window: Window) -> str:
    """What the row of measuring after edits says: also where the model takes too long for it."""
    live, words = window.live, "Measure after every edit"
    return f"{words} (on request: about {duration(live.expected)})" if live.enabled and live.on_request else words


def show_live(window: Window) -> None:
    """Let the score and the menu say how edits are measured."""
    score, row = window.status.score, window.actions_table.actions["live"]
    score.follow(window.live)
    score.wanted.connect(lambda: evaluate(window))
    window.live.state_changed.connect(lambda: row.setText(live_words(window)))


def stop(window: Window) -> None:
    """Stop the job that runs."""
    if running := _running(window):
        window.session.cancel(running.id)


def stop_and_keep(window: Window) -> None:
    """End the training that runs, and keep the best weights so far."""
    if running := _running(window):
        window.session.stop_and_keep(running.id)


def can_stop_and_keep(window: Window) -> bool:
    """Whether the job that runs has something to keep."""
    from espalier.app.jobs.status import can_keep

    running = _running(window)
    return running is not None and can_keep(running)


def _running(window: Window) -> JobInfo | None:
    return next((j for j in window.session.jobs if j.state == "running"), None)
