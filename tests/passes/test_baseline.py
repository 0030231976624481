"""Every divergence is from the baseline that it names: weights that were changed are compared with those opened."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import pytest
import torch

from espalier.model.graph.graph import Graph
from espalier.model.opening import open_source
from espalier.model.torch.build import build
from espalier.model.torch.tensors import to_numpy, to_torch
from espalier.passes.allocation.true_divergence import AllocatedOptions, allocated
from espalier.passes.analysis.baseline import ComparedOptions
from espalier.passes.analysis.divergence import Cell, DivergenceOptions, divergence
from espalier.passes.analysis.evaluate import evaluate
from espalier.passes.base import Context
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.running.splits import EvaluateOptions, load_split
from espalier.passes.sensitivity.table import Candidate
from espalier.passes.transform.prune import prune

DATA = EvaluateOptions("demo:digits", limit=64, batch_size=64)


@dataclass(frozen=True)
class Trained:
    """A model, and the same pruned to a half with every weight a little changed, as a training leaves it."""

    base: Graph
    graph: Graph
    context: Context


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    opened = open_source("demo:digits-mlp", tmp_path_factory.mktemp("work"))
    base = opened.project.base
    context = Context(opened.store, base=base)
    graph = prune(base, PruneOptions(sparsity=0.5), context)[0]
    draw = torch.Generator().manual_seed(0)
    changed = dict(graph.weights)
    for name, weight in changed.items():
        value = to_torch(context.store.get(weight.key or ""))
        moved = value + 0.05 * torch.randn(value.shape, generator=draw)
        changed[name] = replace(weight, key=context.store.hold(to_numpy(moved)))
    return Trained(base, graph.with_weights(changed), context)


def by_hand(held: Trained, base: Graph) -> float:
    """KL(base ‖ present), nats a sample, by torch alone."""
    split = load_split(DATA, held.context)
    x = torch.from_numpy(next(iter(split.inputs.values())))
    logs: list[torch.Tensor] = []
    for graph in (base, held.graph):
        module = build(graph, held.context.store)
        with torch.no_grad():
            result = module(x)
        logits = result if isinstance(result, torch.Tensor) else next(iter(dict(result).values()))
        logs.append(logits.double().log_softmax(-1))
    return float(torch.nn.functional.kl_div(logs[1], logs[0], log_target=True, reduction="batchmean"))


def test_the_divergence_of_changed_weights_is_from_what_was_opened(trained: Trained) -> None:
    wanted = by_hand(trained, trained.base)
    assert wanted > 0.01, "pruning and noise cost something"
    alone = divergence(trained.graph, DivergenceOptions(**asdict(DATA)), trained.context)[1].summary
    beside = evaluate(trained.graph, ComparedOptions(**asdict(DATA)), trained.context)[1].summary
    assert alone["baseline"] == beside["baseline"] == "opened"
    assert alone["kl"] == pytest.approx(wanted, rel=1e-4) and beside["kl"] == pytest.approx(wanted, rel=1e-4)


def test_another_baseline_is_named(trained: Trained) -> None:
    """A pinned state: compared with itself nothing is lost."""
    context = replace(trained.context, base=trained.graph)
    found = evaluate(trained.graph, ComparedOptions(**asdict(DATA), baseline="step 2"), context)[1].summary
    assert found["kl"] == pytest.approx(0, abs=1e-9) and found["baseline"] == "step 2"
    assert found["change"]["accuracy"] == {"baseline": "step 2", "value": 0.0, "test": "McNemar", "p": 1.0,
                                           "within_noise": True}  # fmt: skip


def test_single_choices_are_from_where_gradients_are_taken(trained: Trained) -> None:
    node = next(n.id for n in trained.graph if n.op == "linear")
    wish = DivergenceOptions(**asdict(DATA), cells=(Cell(node, "weight", Candidate(sparsity=0.9)),))
    told = divergence(trained.graph, wish, trained.context)[1].summary
    assert told["baseline"] == "present weights in float"
    planned = allocated(trained.graph, AllocatedOptions(**asdict(DATA)), trained.context)[1].summary
    assert planned["baseline"] == "present weights in float" and planned["kl"] == pytest.approx(0, abs=1e-9)
