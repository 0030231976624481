"""Rebuilt models train, copy and come back: loss falls, dropout obeys train(), ties and stored weights survive."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from espalier.model.formats.integer import Integer
from espalier.model.formats.straight_through import straight_through
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build, parameters_of, read_back
from tests.model.zoo import MODELS, SLOW, Case, case, copied, run, same, slow, tensors

TRAINABLE = [n for n in MODELS if n not in ("in-place-input", "bert-ids", "bert-eager")]
DROPOUT = ("mlp", "bert", "gpt2", "choosy", "t5")


def each(names: list[str]) -> pytest.MarkDecorator:
    marked = [slow(n) if n in SLOW else n for n in names]
    return pytest.mark.parametrize("name", marked)


def loss_of(module: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
    """Distance of all results from 0.5: any model can learn it."""
    found = [t for t in tensors(module(**copied(inputs))) if t.is_floating_point() and t.requires_grad]
    return torch.stack([(t - 0.5).square().mean() for t in found]).sum()


def train(module: nn.Module, held: Case, steps: int = 8) -> tuple[float, float]:
    """(loss before, after) in eval mode around a few steps in train mode."""
    torch.manual_seed(0)
    inputs = held.fresh(4, 8)
    before = float(loss_of(module.eval(), inputs).detach())
    module.train()
    optimiser = torch.optim.Adam([p for p in module.parameters() if p.requires_grad], lr=3e-3)
    for _ in range(steps):
        optimiser.zero_grad()
        loss_of(module, inputs).backward()
        optimiser.step()
    return before, float(loss_of(module.eval(), inputs).detach())


@each(TRAINABLE)
def test_the_loss_falls(name: str) -> None:
    held = case(name)
    before, after = train(held.build(), held)
    assert after < before * 0.999


@each(list(DROPOUT))
def test_dropout_obeys_train_and_eval(name: str) -> None:
    held = case(name)
    built, inputs = held.build(), held.fresh(4, 8)
    assert not built.training and same(run(built, inputs), run(built, inputs))
    built.train()
    torch.manual_seed(1)
    first = run(built, inputs)
    assert not same(run(built, inputs), first)
    torch.manual_seed(1)
    assert same(run(built, inputs), first)
    built.eval()
    assert same(run(built, inputs), held.expected(inputs))


@each(["mlp", "image", "bert", "choosy", "recurrent"])
def test_training_leaves_stored_weights_and_other_builds_alone(name: str) -> None:
    """The graph names values by their content: what the store gives for a key may never change."""
    held = case(name)
    inputs = held.fresh(2, 8)
    want = held.expected(inputs)
    other, built = held.build(), held.build()
    train(built, held, 2)
    assert not same(run(built, inputs), want)
    assert same(run(other, inputs), want) and same(run(held.build(), inputs), want)
    assert all(held.store.get(w.key).key() == w.key for w in held.graph.weights.values() if w.key)
    assert same(held.expected(inputs), want)


@each(["mlp", "image", "bert", "choosy", "recurrent"])
def test_training_leaves_a_file_and_its_mapping_alone(name: str, tmp_path: Path) -> None:
    held = case(name)
    store = WeightStore(tmp_path)
    for weight in held.graph.weights.values():
        assert weight.key is not None
        store.hold(held.store.get(weight.key))
    store.flush("weights")
    (file,) = tmp_path.iterdir()
    kept = file.read_bytes()
    built = build(held.graph, store, held.traced.callables)
    train(built, held, 2)
    assert file.read_bytes() == kept
    assert all(store.get(w.key).key() == w.key for w in held.graph.weights.values() if w.key)


@each(["mlp", "tied", "image", "odd", "bert", "gpt2", "choosy"])
def test_trained_weights_come_back_under_new_keys(name: str) -> None:
    held = case(name)
    built, inputs = held.build(), held.fresh(2, 8)
    assert read_back(built, held.graph, held.store) is held.graph
    train(built, held, 3)
    after = read_back(built, held.graph, held.store)
    changed = {k for k, w in after.weights.items() if w.key != held.graph.weights[k].key}
    live = parameters_of(built)
    assert set(live) == set(held.graph.weights)
    moved = {k for k, p in live.items() if isinstance(p, nn.Parameter) and p.requires_grad and p.numel()}
    assert changed >= {k for k in moved if live[k].grad is not None and live[k].grad.any()} and changed
    assert all(w == replace(held.graph.weights[k], key=w.key) for k, w in after.weights.items())
    assert not after.delta(held.graph) and after.nodes is held.graph.nodes
    want = run(built, inputs)
    assert same(run(held.build(after), inputs), want)
    train(built, held, 1)  # what was read back is a copy
    assert same(run(held.build(after), inputs), want)


def test_batch_norm_learns_its_statistics() -> None:
    held = case("image")
    built = held.build()
    train(built, held, 2)
    after = read_back(built, held.graph, held.store)
    count = after.weights["norm.num_batches_tracked"].key
    assert count is not None and held.store.get(count).array == 2
    assert after.weights["norm.running_mean"].key != held.graph.weights["norm.running_mean"].key


def test_ties_survive_training() -> None:
    held = case("tied")
    built = held.build()
    assert built.get_submodule("embed").weight is built.get_submodule("head").weight
    assert len(list(built.parameters())) == 3
    train(built, held)
    assert built.get_submodule("embed").weight is built.get_submodule("head").weight
    after = read_back(built, held.graph, held.store)
    rebuilt = held.build(after)
    assert rebuilt.get_submodule("embed").weight is rebuilt.get_submodule("head").weight


def test_frozen_weights_stay() -> None:
    held = case("odd")
    built = held.build()
    assert not parameters_of(built)["frozen"].requires_grad
    train(built, held)
    after = read_back(built, held.graph, held.store)
    assert after.weights["frozen"] == held.graph.weights["frozen"]


@each(["mlp", "tied", "image", "bert", "choosy"])
def test_deep_copies_are_their_own(name: str) -> None:
    held = case(name)
    built, inputs = held.build(), held.fresh(2, 8)
    want = run(built, inputs)
    twin = copy.deepcopy(built)
    assert same(run(twin, inputs), want)
    train(twin, held, 2)
    assert not same(run(twin, inputs), want) and same(run(built, inputs), want)
    after = read_back(twin, held.graph, held.store)
    assert same(run(held.build(after), inputs), run(twin, inputs))


@each(["mlp", "tied", "image", "odd", "bert"])
def test_state_is_named_as_the_models(name: str) -> None:
    """A state dict goes from one build to another; its names are those of the original."""
    held = case(name)
    trained, fresh = held.build(), held.build()
    train(trained, held, 2)
    state = trained.state_dict()
    assert set(state) <= {k for k, _ in held.original.state_dict().items()}
    fresh.load_state_dict(state)
    assert same(run(fresh, held.example), run(trained, held.example))


# -- quantisation-aware training


def quantised(graph: Graph, bits: int = 6) -> Graph:
    choice = Precision(Integer(bits, bits - 2))
    return graph.replace(
        *(
            replace(n, precision={"data_in": choice, "weight": choice, "bias": choice})
            for n in graph
            if n.op == "linear" and n.call == "call_module"
        )
    )


@each(["mlp", "tied", "image", "bert", "gpt2", "choosy"])
def test_quantised_models_train_too(name: str) -> None:
    held = case(name)
    graph = quantised(held.graph)
    built = held.build(graph)
    before, after = train(built, held)
    assert after < before
    back = read_back(built, graph, held.store)
    assert back.weights != graph.weights
    assert same(run(held.build(back), held.example), run(built, held.example))


def test_effective_weights_follow_the_optimiser() -> None:
    """In inference a quantised weight is computed once and kept, until the parameter is written."""
    held = case("mlp")
    fmt = Integer(8, 5)
    node = replace(held.graph["first"], precision={"weight": Precision(fmt)})
    built = held.build(held.graph.replace(node))
    leaf = built.get_submodule("first")
    weight = parameters_of(built)["first.weight"]
    with torch.no_grad():
        first = leaf.tensor("weight")  # type: ignore[operator]
        assert leaf.tensor("weight") is first  # type: ignore[operator]
    optimiser = torch.optim.SGD([weight], lr=1.0)
    weight.grad = torch.ones_like(weight)
    optimiser.step()
    with torch.no_grad():
        second = leaf.tensor("weight")  # type: ignore[operator]
        assert torch.equal(second, straight_through(fmt, weight.detach())) and not torch.equal(second, first)
        weight.copy_(torch.zeros_like(weight))
        assert not leaf.tensor("weight").any()  # type: ignore[operator]
        built.load_state_dict({k: torch.ones_like(v) for k, v in built.state_dict().items()})
        assert (leaf.tensor("weight") == 1).all()  # type: ignore[operator]
        weight.data = torch.full_like(weight, 2.0)
        assert (leaf.tensor("weight") == 2).all()  # type: ignore[operator]
    assert built.double()(x=torch.zeros(2, 4, dtype=torch.float64)).dtype == torch.float64


def test_gradients_pass_straight_through() -> None:
    held = case("mlp")
    fmt = Integer(4, 2)  # −2 … 1.75
    node = replace(held.graph["second"], precision={"weight": Precision(fmt)})
    built = held.build(held.graph.replace(node))
    weight = parameters_of(built)["second.weight"]
    with torch.no_grad():
        weight[0, 0] = 5.0
    built(x=torch.ones(2, 4)).sum().backward()
    assert weight.grad is not None and weight.grad[0, 0] == 0 and weight.grad[1].any()
