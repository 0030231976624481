"""Scores, sensitivities, allocations, searches and sweeps of a model, which they do not change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from espalier.app.api.allocating import allocated
from espalier.app.api.data import Data, Given, check_labels, given, splits_of
from espalier.app.api.reports import Allocation, Curve, Report, Study
from espalier.app.api.steps import Editable
from espalier.app.api.studies import Searched, searched, swept
from espalier.app.api.task import with_task
from espalier.app.commands.scoring import baseline_score, changed, plain, score
from espalier.model.data.base import ALL, Split, TaskData
from espalier.model.document.codec import decode
from espalier.model.errors import DataError, OptionsError
from espalier.model.formats.base import Format
from espalier.passes.base import fill_limits
from espalier.passes.figure import OPENED
from espalier.passes.running.batches import batches, fit_error
from espalier.passes.running.splits import EvaluateOptions, choose_split, load_split

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.passes.tasks.own import Functions

Metric = Callable[[Any, Any], Any]
Names = Sequence[str]


class Measurable(Editable):
    """Scores, sensitivities, allocations, searches and sweeps of a model."""

    def score(self, data: Data | None = None, **options: Any) -> Report:
        """Costs of the model and, on data, its accuracy and loss, compared with the model as opened.

        Args:
            data: a name (`demo:NAME`, `hub:NAME`, a file or folder), arrays `(x, y)`, a Dataset, a DataLoader or a
                generator. Default: the data of a demo; of other models none, so that nothing is measured.
            options: of `evaluate`: `limit`, `split`, `batch_size`, `task`, …; `metric` and `loss`: functions, as of
                `es.Task`.

        Returns:
            A Report: the metrics of the `task`, such as `accuracy` (0…1), and its `loss` (mean cross-entropy in nats,
            of a regression the mean squared error), with `n` and the 95 % `interval` of the main `metric`;
            `size_bytes` of the packed file, `weight_bits` and `activation_bits` (stored bits an element), `sparsity`
            and `activation_sparsity` (0…1), `bitops` of one sample, `memory_density`; the change of the main metric
            from *opened*, such as `accuracy_change`, and whether that is `within_noise`.

        Raises:
            DataError: the data cannot be read, have no labels, or do not fit the model.

        Example:
            m.score("demo:digits").accuracy
        """
        options, task = with_task(options, EvaluateOptions)
        source = self._on(data, options, functions=task)
        check_labels(source)
        evaluate_options: EvaluateOptions = decode(EvaluateOptions, {**options, "data": source.spec})
        chosen, target, start = evaluate_options if source.spec else None, self._target(), time.perf_counter()
        now = score(self._graph, target, chosen)
        active = bool(self._project.recipe.active)
        before = baseline_score(self._project.base, target, chosen) if active and self._runs_opened else {}
        figures = {k: v for k, v in plain(now).items() if k != "dominant"}
        rows = tuple({"figure": k, "value": v, **({OPENED: before.get(k)} if before else {})}
                     for k, v in figures.items() if isinstance(v, int | float))  # fmt: skip
        for name, change in changed(before, now, OPENED).items():
            figures |= {f"{name}_change": change["value"], "baseline": OPENED, "within_noise": change["within_noise"]}
        return Report("score", figures, rows, time.perf_counter() - start)

    def evaluate(self, data: Data | None = None, metric: Metric | None = None, **options: Any) -> Report:
        """Accuracy and loss on data, or any metric of the caller's.

        Args:
            data: as of `score`. With a metric, labels may be of any kind and shape, or absent.
            metric: `metric(outputs, labels)` of all samples, first axis = sample, both torch tensors: outputs are the
                class scores, else the model's one result, else a dict of results by name; labels are None where there
                are none. What it returns becomes the figure of its name; a dict becomes several figures.
            options: of `evaluate`: `limit`, `split`, `batch_size`, …

        Returns:
            A Report with `n` and the metric; without one the same figures as `score`, not compared.

        Raises:
            DataError: the data cannot be read or do not fit the model; without a metric, labels are no class numbers.

        Example:
            m.evaluate((x, y), metric=lambda out, y: (out.squeeze(1) - y).abs().mean().item())
        """
        if metric is None:
            return self.run("evaluate", **({} if data is None else {"data": data}), **options)
        start = time.perf_counter()
        evaluate_options: EvaluateOptions = decode(EvaluateOptions, {**options, "data": "given"})
        split = self._samples(data, evaluate_options)
        result = metric(*self._outputs(split, evaluate_options.batch_size))
        name = getattr(metric, "__name__", "metric").replace("<lambda>", "metric")
        figures = dict(result) if isinstance(result, Mapping) else {name: _number(result)}
        return Report("evaluate", {"n": len(split), **figures}, seconds=time.perf_counter() - start)

    def sensitivity(
        self, data: Data | None = None, select: Any = None, *, formats: Sequence[str | Format] = (), ports: Names = (),
        sparsities: Sequence[float] = (), exact: bool = False, seed: int = 0, **options: Any,
    ) -> Report:  # fmt: skip
        """Predict the output divergence of each format at each port of each layer, from one gradient pass.

        Args:
            data: as of `score`; no labels are needed.
            select: which nodes, as for passes; default all.
            formats: such as `["int8", "mxint4"]`; none: all, at usual widths.
            ports: of weight, bias, data_in, data_out; none: all that can take formats.
            sparsities: shares (0…1] of weights and layers' inputs to prune as well.
            exact: measure every candidate, instead of predicting most.
            seed: of the labels that are drawn from the model.
            options: others of the pass: `limit` (samples, 256), `measure`, `configurations`, `seconds`, …

        Returns:
            A Report, a row a node, port and candidate: `predicted` (KL divergence from the baseline's outputs, nats a
            sample), `noise` (error over signal), `measured` (the true divergence, or None).

        Raises:
            DataError: there are no data, or they do not fit. OptionsError: an impossible port, share or format.

        Example:
            m.sensitivity("demo:digits", formats=["int8", "int4"], ports=["weight"]).rows[0]
        """
        values = {"formats": list(formats), "ports": list(ports), "sparsities": list(sparsities), "exact": exact}
        given_data = {} if data is None else {"data": data}
        return self.run("sensitivity", select, seed=seed, **given_data, **values, **options)

    def allocate(
        self, data: Data | None = None, *, budget: str | Sequence[str], formats: Sequence[str | Format] = (),
        sparsities: Sequence[float] = (), ports: Names = (), ties: Iterable[Names] = (), exact: bool = False,
        seed: int = 0, **options: Any,
    ) -> Allocation:  # fmt: skip
        """Compute the formats and sparsities within budgets of least output divergence; `apply` its recipe.

        Args:
            data: as of `score`; no labels are needed.
            budget: one or several such as `"weight_bits<=4.5"`, `"size_bytes<=300KiB"`, `"cycles<=64"`.
            formats: candidates, such as `["int8", "int4", "float"]`; none: all, and float.
            sparsities: shares (0…1] that may be pruned.
            ports: of weight, bias, data_in, data_out; none: all.
            ties: groups of nodes that share one choice.
            exact: measure every candidate, instead of predicting most.
            seed: of the sensitivities.
            options: others of `sensitivity`.

        Returns:
            An Allocation: a row a port with its format, `predicted` (KL, nats a sample), the costs, and `recipe`.

        Raises:
            OptionsError: no allocation meets the budget (names the least possible), or a budget is no sum over layers.

        Example:
            plan = m.allocate("demo:digits", budget="weight_bits<=4.5", formats=["int8", "int4", "int2"])
            m.apply(plan.recipe)
        """
        source = self._on(data, options)
        budgets = [budget] if isinstance(budget, str) else list(budget)
        values = {**options, "data": source.spec, "exact": exact, "ports": list(ports), "sparsities": list(sparsities)}
        return allocated(self._target(seed), budgets, list(formats), [tuple(t) for t in ties], values)

    def search(
        self, spec: str | PathLike[str] | Mapping[str, Any], data: Data | None = None, *, trials: int = 0,
        storage: str = "", resume: bool = False, seed: int = 0, **task: Any,
    ) -> Study:  # fmt: skip
        """Search formats, sparsities and options; Ctrl-C returns the finished trials.

        Args:
            spec: a dict with the keys of a search file (`space`, `goals`, `within`, `sampler`, `trials`, …), the path
                of such a file (TOML or JSON), or the name of a template such as "mixed-precision".
            data: as of `score`; it replaces the spec's.
            trials: total number, overrides the spec's.
            storage: URL of the study (`journal:///F`, `sqlite:///F`, …); default: temporary.
            resume: continue the study of that name in the storage.
            seed: of the sampler.
            task: `task`, `metric` or `loss`, as of `score`, of scores and trainings; a metric can be a goal.

        Returns:
            A Study: a row a trial, `front`, the best trial's figures, and its `recipe` for `apply`.

        Raises:
            OptionsError: with the path of the error in the spec. StorageError: the storage is unavailable.

        Example:
            study = m.search({"space": [{"values": "integer(width=4|8)"}], "goals": ["accuracy"],
                              "within": ["weight_bits<=6"], "trials": 20}, "demo:digits")
            m.apply(study.recipe)
        """
        values, functions = with_task(task, Searched)
        if unknown := set(values) - {"task"}:
            raise OptionsError(f"{min(unknown)} is not an option.", "Write it into the spec.")
        source = self._on(data, {}, fall_back=False, functions=functions)
        data_ = Searched(source.spec, str(values.get("task", "")))
        return searched(self._target(), spec, data_, trials, storage, resume, seed, self._place.scratch.folder)

    def sweep(
        self, over: str | Mapping[str, Sequence[Any]] = "", data: Data | None = None, *,
        recipe: Any = None, along: Names = (), variants: Names = (), seeds: int = 1, **options: Any,
    ) -> Curve:  # fmt: skip
        """Vary an option of a recipe over values, in variants, over seeds; each point is scored.

        Args:
            over: `"prune.sparsity=0.1:0.9:0.1"`, or `{"prune.sparsity": [0.1, 0.5, 0.9]}`; a step is named by its pass
                (`prune#2` for the second), an option by its name.
            data: as of `score`.
            recipe: the steps, as of `apply`, after the model's own; default: the model's own.
            along: options that move along with `over`, value by value.
            variants: a line for each, such as `"prune.method=l1,random"` or `"finetune=on,off"`.
            seeds: repeat with so many seeds.
            options: of `evaluate`: `limit`, `split`, `batch_size`, `task`, …; `metric` and `loss`, as of `score`.

        Returns:
            A Curve: a row a point with its score; `means` over the seeds.

        Raises:
            OptionsError: there is nothing to vary, or an option does not exist; the first error where all points fail.

        Example:
            m.sweep({"prune.sparsity": [0.3, 0.6, 0.9]}, "demo:digits", recipe={"prune": {}}).means
        """
        options, task = with_task(options, EvaluateOptions)
        source = self._on(data, options, functions=task)
        evaluate_options: EvaluateOptions = decode(EvaluateOptions, {**options, "data": source.spec})
        return swept(self._target(), over, recipe, along, variants, seeds, evaluate_options)

    # -- inner

    @property
    def _runs_opened(self) -> bool:
        """Whether the model as opened has its weights."""
        return all(w.key is not None for w in self._project.base.weights.values())

    def _on(
        self, data: Data | None, options: Mapping[str, Any], *, fall_back: bool = True,
        functions: Functions | None = None,
    ) -> Given:  # fmt: skip
        """The caller's data, else that of the model's source."""
        if data is None:
            return Given((self._project.source.data or "") if fall_back else "")
        return given(data, self._graph, self._context(), int(options.get("limit") or 0), functions)

    def _samples(self, data: Data | None, options: EvaluateOptions) -> Split:
        """The samples for a metric."""
        context = self._context()
        if data is None or isinstance(data, str | PathLike):
            fill_limits(context, self._graph)
            spec = str(data or self._project.source.data or "")
            return load_split(replace(options, data=spec), context)
        splits = splits_of(data, self._graph, context, options.limit)
        if options.split in ("", ALL) and ALL in splits:
            return splits[ALL]
        return choose_split(TaskData("The data", "", (), splits, {}), options.split, options.limit)

    def _outputs(self, split: Split, size: int) -> tuple[Any, Tensor | None]:
        """(outputs for all samples, labels or None)."""
        import torch

        from espalier.model.torch.build import build
        from espalier.model.torch.in_place import in_place

        context, outputs = self._context(), list[Any]()
        module = build(self._graph, context.store, context.callables, packed=True)
        blank = Split(split.inputs, split.labels if split.labels.dtype.kind == "i" else _zeros(split), split.lengths)
        with in_place(module), torch.no_grad():
            for done, (inputs, _) in enumerate(batches(blank, self._graph, size)):
                context.progress(done * size, len(split), "evaluating")
                with fit_error(inputs, self._graph):
                    outputs.append(_result(module(**inputs)))
        labels = None if split.labels.dtype == bool else torch.from_numpy(split.labels)
        if isinstance(outputs[0], dict):
            return {k: torch.cat([f[k] for f in outputs]) for k in outputs[0]}, labels
        return torch.cat(outputs), labels


def _zeros(split: Split) -> Any:
    import numpy as np

    return np.zeros(len(split), np.int64)


def _result(result: Any) -> Any:
    """Logits, else the single output, else outputs by name; those without a sample axis are omitted."""
    if not isinstance(result, dict | tuple | list):
        return result
    named = result if isinstance(result, dict) else {str(i): v for i, v in enumerate(result)}
    named = {k: v for k, v in named.items() if getattr(v, "dim", lambda: 0)() > 0}
    if not named:
        raise DataError("The model has no output with a sample axis.", "Add the metric's input as an output.")
    if "logits" in named or len(named) == 1:
        return named.get("logits", next(iter(named.values())))
    return named


def _number(value: Any) -> Any:
    """Convert a scalar tensor or numpy scalar to a plain number."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value
