"""`open`, `trace`, `diff`, `load_plugins` and the class `Model`."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from espalier.app.api.data import Data
from espalier.app.api.difference import Difference, difference, state
from espalier.app.api.measures import Measurable
from espalier.app.api.methods import install, selection
from espalier.app.api.pass_methods import PassMethods
from espalier.app.api.reports import Report
from espalier.app.api.showing import check_display, open_window, temporary_file
from espalier.app.api.steps import Progress, Workplace
from espalier.app.canvas.svg import to_svg
from espalier.app.commands.console import count, size
from espalier.app.commands.states import StateName, parse_state
from espalier.model.document.arrangement import MEMBER, from_bytes
from espalier.model.document.codec import decode
from espalier.model.document.project import save_project
from espalier.model.errors import ChangedError, OptionsError, ProjectError
from espalier.model.graph.limits import limit_warnings
from espalier.model.leftovers import Scratch
from espalier.model.opening import is_project, open_any
from espalier.model.store.open_files import Version
from espalier.model.trust import Origin, require
from espalier.passes.query import find_nodes
from espalier.passes.saved import with_members
from espalier.passes.score import static_score
from espalier.passes.select import Select

if TYPE_CHECKING:
    import networkx as nx
    from torch import fx, nn

    from espalier.app.api.data import Data
    from espalier.model.document.project import Project
    from espalier.model.graph.node import Node
    from espalier.model.opening import Opened

PathName = str | PathLike[str]


def _silent(done: int, total: int, text: str) -> None:
    """Ignore progress."""


def open(
    source: PathName, *, inputs: Iterable[str] = (), seed: int = 0, trust: Iterable[PathName] = (),
    origin: Literal["typed", "file"] = "typed", progress: Progress = _silent,
) -> Model:  # fmt: skip
    """Open a model or a project.

    Args:
        source: a Hugging Face folder, `hf:NAME`, `config:bert?num_hidden_layers=2`, `net.py:make` (a function or class
            that returns a module, or (module, example inputs)), `model.pt2`, a packed model, `demo:reviews`, or a
            project `x.espalier`. Code that you name here runs; what a project names is data.
        inputs: names of the inputs to trace with; default: the usual ones.
        seed: of weights that are drawn, as of `config:` sources.
        trust: Python files that a project names and that may run, where its model needs them.
        origin: "file" where you read `source` from a file: code that it names then runs only if it is trusted.
        progress: is called with (done, total, text) in long work; what it raises stops the work.

    Returns:
        The Model. Python warnings name sizes that the model's code tests, for which the graph is valid within a limit
        only, and weights with NaN or infinite values; of a project, which is opened without
        reading its weights, the first score or export does.

    Raises:
        SourceError, ProjectError: the source is missing, unreadable or unknown.
        TraceError: the model cannot be captured. TrustError: a file names code that is not trusted.

    Example:
        import espalier as es
        m = es.open("demo:digits")
    """
    spec = os.fspath(source)
    for path in trust:
        require(Path(path), "code", Origin.TYPED)
    scratch = Scratch()
    try:
        version = Version.of(Path(spec).resolve()) if is_project(spec) else None  # before it is read
        opened = open_any(spec, scratch.folder, tuple(inputs), seed, origin=Origin(origin))
        _warn(opened)
        place = Workplace.of(opened, scratch, progress, is_project=is_project(spec))
        place.versions.update({Path(spec).resolve(): version} if version else {})
        return Model(place, opened.project, path=Path(spec) if is_project(spec) else None)
    except BaseException:
        scratch.close()
        raise


def trace(module: nn.Module, example: Any, *, name: str = "", progress: Progress = _silent) -> Model:
    """Trace a torch module. The module is unchanged; the model has a copy of its weights.

    Args:
        module: in any mode; it is traced in eval mode.
        example: a tensor, a tuple of tensors in the order of `forward`, or a dict of keyword arguments. Give each free
            size (batch, sequence) at least 2, so that it stays free.
        name: what the model is called; default: its class.
        progress: as of `open`.

    Returns:
        The Model. A project saved from it holds all weights and opens without the module's code.

    Raises:
        TraceError: the module cannot be captured. SourceError: it is no module, or the example is none.

    Example:
        net = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
        m = es.trace(net, torch.randn(2, 8))
    """
    from espalier.app.api.tracing import traced

    scratch = Scratch()
    try:
        opened = traced(module, example, name, scratch.folder)
        _warn(opened)
        return Model(Workplace.of(opened, scratch, progress, is_project=False), opened.project)
    except BaseException:
        scratch.close()
        raise


def _warn(opened: Opened) -> None:
    """Warn of weights that are not finite and of limits of sizes, at the line of the caller of `open` or `trace`."""
    for text in limit_warnings(opened.project.graph):
        warnings.warn(text, stacklevel=3)
    if opened.problems:
        from espalier.model.trace.weight_checks import counts_of, weight_warning

        for text in weight_warning(counts_of(opened.problems)):
            warnings.warn(text, stacklevel=3)


def diff(
    before: Model | PathName, after: Model | PathName, *, data: Data = "", kl: bool = True
) -> Difference:  # fmt: skip
    """Compare two models, A and B: nodes, operations, shapes, formats, sparsities, weights, scores.

    Nodes are paired by id; in models of different files by the contents of their weights, by module path, and by
    structure.

    Args:
        before, after: models, what `open` takes, or states of a project: `P.espalier@3` (after its first three active
            steps), `P.espalier@opened`, `P.espalier#STUDY/TRIAL`.
        data: measure both on the same samples of these data (as of `Model.score`) and test the difference of their
            accuracies. Default: scores that the projects store, and costs.
        kl: with data, also measure what each row of `.groups` costs alone; the time grows with the rows.

    Returns:
        A Difference: a row a change (`node`, `what`, `before`, `after`, `size_bytes`, `distance`), `.groups` of twins,
        `.scores`; false if nothing differs.

    Raises:
        UsageError: a project has no such step, study or trial.
        DataError: the data do not fit A. Others as of `open`.

    Example:
        es.diff("before.espalier", m).rows
    """
    sides = [_opened(before), _opened(after)]
    source = sides[0][0]._on(data, {}, fall_back=False)
    a, b = (state(m._target(), name, title, source.spec, held=(m, source)) for m, name, title in sides)
    return difference(a, b, kl)


def _opened(model: Model | PathName) -> tuple[Model, StateName | None, str]:
    """A model, which of its states is meant (None: the present one), and its title."""
    if isinstance(model, Model):
        return model, None, model.project.source.name
    name = parse_state(os.fspath(model))
    return open(name.source), name, name.title


def load_plugins(*files: PathName) -> list[str]:
    """Load and run the plug-ins of the user's folder, of installed packages, and these files.

    Args:
        files: Python files that register passes, formats, costs or hardware rules.

    Returns:
        The names of the loaded passes; each becomes a method of every model.

    Raises:
        PassError, RegistryError: one of the files cannot be loaded, or a name is taken. Others are left out, and named
            on stderr.

    Example:
        es.load_plugins("halve.py")
    """
    from espalier.passes.plugins.plugins import load_plugins as load

    loaded = load([os.fspath(f) for f in files], lambda text: print(text, file=sys.stderr))
    return [name for plugin in loaded for name in plugin.passes]


class Model(Measurable, PassMethods):
    """A model as a graph, with the steps applied to it.

    Every registered pass is a method of its name: transforms return the model, so that calls can be chained, analyses
    return a Report. `es.open` and `es.trace` make one.

    Example:
        m = es.open("demo:digits")
        m.fold_batch_norm().quantize("linear", weight="mxint4", data_in="int8")
        print(m.score())
        m.export("onnx", "digits.onnx")
    """

    def __init__(
        self, place: Workplace, project: Project, *, held: Iterable[Any] = (), path: Path | None = None
    ) -> None:
        super().__init__(place, project, held=held)
        self._path, self._saved = path, project

    def to_torch(self) -> fx.GraphModule:
        """The model as a torch module that computes with its formats and masks (fake quantisation).

        Inputs are the names of the graph's inputs, by place or by name; results leave as the original's did (a
        tensor, a tuple, or a dict by name). It is in eval mode and can be trained: gradients pass through formats
        straight. Its tensors are its own; training it does not change the model. Inputs of sizes for which the graph
        is not valid raise DataError.

        Raises:
            GraphError: the model was opened without weights, or needs code that was not loaded.

        Example:
            module = m.to_torch()
            logits = module(x)
        """
        from espalier.model.torch.build import build
        from espalier.model.torch.size_check import refuse_other_sizes

        module = build(self._graph, self._place.opened.store, self._place.callables)
        refuse_other_sizes(module, self._graph)
        return module

    def nodes(self, select: Any = None) -> tuple[Node, ...]:
        """Nodes of the graph, in topological order.

        Args:
            select: as passes take it: a type, a name, a module path, a list of these, or an expression such as
                "where:params > 1e4". Default: all nodes.

        Returns:
            Frozen nodes with `id`, `op`, `ports` (shape and dtype by port), `inputs`, `weights`, `precision`,
            `sparsity`, `attrs` and `annotation`; none where an expression is true of none.

        Raises:
            OptionsError: a word is no type, node or module of this graph.

        Example:
            [n.id for n in m.nodes("where:bits <= 4")]
        """
        if select is None:
            return tuple(self._graph)
        wanted = with_members(decode(Select, selection(select, self._graph)), self.selections)
        return tuple(map(self._graph.nodes.__getitem__, find_nodes(self._graph, wanted)))

    def __getitem__(self, node: str) -> Node:
        """The node of an id; raises GraphError with the nearest one."""
        return self._graph[str(node)]

    def __iter__(self) -> Iterator[Node]:
        """The nodes, in topological order."""
        return iter(self._graph)

    def __contains__(self, node: object) -> bool:
        """Whether there is a node of this id."""
        return node in self._graph.nodes

    def to_networkx(self) -> nx.MultiDiGraph[str]:
        """The graph in networkx: node attributes op, kind, module_path; edge attributes output, shape.

        Example:
            networkx.dag_longest_path_length(m.to_networkx())
        """
        return self._graph.to_networkx()

    def export(
        self, form: str, path: PathName, *, leave_float: bool = False, exact: bool = False,
        clip: Literal["format", "code"] = "format", dynamic: Literal["format", "runtime"] = "format",
        accuracy_level: int = 1, standard: bool = False, largest: int = 128, ids_only: bool = False,
        check: bool = False, data: Data | None = None, **options: Any,
    ) -> Report:  # fmt: skip
        """Export the model.

        Args:
            form: "safetensors" (a folder with the weights as they compute), "packed" (one file in the bits of the
                formats), "compressed-tensors" (a Hugging Face folder with weights as codes and scales), "torchao" (one
                with tensors of torchao), "gguf" (for llama.cpp), "onnx", "openvino" (.xml and .bin),
                "executorch" (.pte), "pt2"
                (torch.export), "adapter" (LoRA as PEFT saves it), "script" (a Python program in this interface),
                "recipe" (TOML or JSON), "sharded" (after `m.shard`: a folder that torchrun runs).
            path: the file or folder to write.
            leave_float: onnx: leave activations in float if ONNX has no equivalent format, and report it;
                compressed-tensors, torchao, gguf, openvino and executorch: weights, too, with the values of their
                formats.
            exact: onnx: equal results but for float rounding. By default integer operators round biases and clip at
                code −128.
            clip: onnx: where uint8 activations are clipped, at the ends of the format or of the codes.
            dynamic: onnx: scales from the data as the format says, or as onnxruntime takes them.
            accuracy_level: onnx: of products of float activations with stored integers: 1 computes in float32, 4 rounds
                activations to int8.
            standard: onnx: ONNX's own operators alone.
            largest: executorch: upper bound of free sizes (batch, sequence), or twice those of the trace; memory is
                planned for it.
            ids_only: gguf: write no vocabulary, which llama.cpp's programs need and its library does not.
            check: run the file in its runtime beside a float file and the runtime's own quantisers.
            data: of the check, by default the source's; without any it has no accuracies.
            options: of the check: limit, batch_size, threads, runs, and how the data are read.

        Returns:
            A Report: a row a file; `bytes`, `notes` (what the form could not take along), `max_abs_diff` of its results
            from the model's, or `not_compared`: why it was not run, and where it was checked `check`. Of codes and
            scales: `float32_bytes`, `packed_bytes`.

        Raises:
            ExportError: the form does not exist, or cannot hold this model.
            PassError: "sharded", and the model is not.

        Example:
            m.export("packed", "small.packed.safetensors").bytes
        """
        from espalier.passes.export import NOT_RUN, checked_export, export
        from espalier.passes.export.checking.target import CheckOptions
        from espalier.passes.export.settings import ExecuTorchOptions, GgufOptions, OnnxOptions, Settings

        if form == "sharded":
            from espalier.passes.export.sharded.folder import emit_sharded

            written = emit_sharded(self._project, self._place.opened.store, Path(path), {"strategy": "of the model"})
            files = tuple({"file": f, "bytes": Path(f).stat().st_size} for f in written.files)
            return Report("export sharded", {"bytes": written.bytes, "notes": list(written.notes)}, files)
        onnx: OnnxOptions = decode(OnnxOptions, {"exact": exact, "clip": clip, "dynamic": dynamic,
                                                 "accuracy_level": accuracy_level, "standard": standard})  # fmt: skip
        settings = Settings(leave_float, self._place.progress, onnx, decode(ExecuTorchOptions, {"largest": largest}),
                            GgufOptions(ids_only))  # fmt: skip
        what = self._project, self._place.opened.store, form, Path(path), settings
        if check:
            source = self._on(data, options)
            measured: CheckOptions = decode(CheckOptions, {**options, "data": source.spec})
            done = checked_export(*what, measured, self._context())
        elif options or data is not None:
            raise OptionsError(f"{next(iter(options), 'data')} is an option of the check.", "Add check=True.")
        else:
            done = export(*what)
        rows = tuple({"file": f, "bytes": Path(f).stat().st_size} for f in done.files)
        summary = {"bytes": done.bytes, "notes": list(done.notes)}
        if done.max_abs_diff is not None:
            summary["max_abs_diff"] = done.max_abs_diff
        else:
            ran = "The notes say why, or the model runs at no size."
            summary["not_compared"] = f"{form} is not run when it is written." if form in NOT_RUN else ran
        if done.packed_bytes:
            summary |= {"float32_bytes": done.float32_bytes, "packed_bytes": done.packed_bytes}
        return Report(f"export {form}", summary | ({"check": done.check.to_json()} if done.check else {}), rows)

    def save(self, path: PathName, *, replace: bool = False) -> Path:
        """Save the model as a project atomically; the window and `es.open` open it.

        Args:
            path: a file that ends in `.espalier`; an older one is replaced.
            replace: also replace a file that the window, a command or another model has changed since this model or a
                copy of it opened or saved it.

        Returns:
            The path.

        Raises:
            ProjectError: the file cannot be written, or has another ending.
            ChangedError: the file was changed since then; it is as it was.

        Example:
            m.save("digits.espalier")
        """
        place = Path(path).expanduser()
        if not is_project(place.name):
            raise ProjectError(f"{place.name} is not a project file.", "End it in .espalier.")
        versions, key = self._place.versions, place.resolve()
        over = None if replace else versions.get(key)
        try:
            saved = save_project(self._project, self._place.opened.store, place, over=over)
        except ChangedError as error:
            hint = "Save under another name, open it again, or replace it by m.save(path, replace=True)."
            raise ChangedError(error.message, hint) from error
        if saved.version:
            versions[key] = saved.version
        self._path, self._saved = place, self._project
        return place

    def show(self) -> subprocess.Popen[bytes]:
        """Open the window on the model in a process of its own; the program goes on at once.

        The window opens the file that the model was opened from or saved to, if nothing changed since; else a copy,
        which goes with the window unless it is saved. Changes in the window do not come back: save there, and open the
        file here. In a notebook the model as the last line of a cell draws its graph.

        Returns:
            The process; `m.show().wait()` waits until the window closes.

        Raises:
            EspalierError: there is no display.

        Example:
            m.show()
        """
        check_display()
        if self._path is not None and self._project is self._saved and self._path.exists():
            return open_window(self._path, temporary=False)
        path = temporary_file(self._project.source.name)
        save_project(self._project, self._place.opened.store, path)
        return open_window(path, temporary=True)

    def __repr__(self) -> str:
        graph, source = self._graph, self._project.source
        static, parameters = (
            static_score(graph),
            sum(w.elements for w in graph.weights.values() if w.role == "parameter"),
        )
        steps = [s.pass_name for s in self._project.recipe.active]
        return (f"<Model {source.name}: {count(len(graph))} nodes, {count(parameters)} parameters, "
                f"{static.weight_bits:.2f} weight bits, {size(static.size_bytes)}; "
                f"steps: {', '.join(steps) or 'none'}>")  # fmt: skip

    def _repr_svg_(self) -> str:
        return to_svg(self._graph, arrangement=from_bytes(self._project.extras.get(MEMBER)))


install(Model)
