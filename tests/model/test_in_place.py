"""In-place quantisation of activations: only values that no other reader sees, with equal results."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from espalier import passes
from espalier.model.formats.base import Format, parse_format
from espalier.model.graph.graph import Graph
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.model.torch.in_place import EXCLUSIVE, in_place
from espalier.model.torch.layers import Effective
from espalier.model.trace.trace import trace
from espalier.passes.base import Context
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.running.observing import tap
from espalier.passes.select import Select
from espalier.passes.transform.quantize import quantize
from tests.model.zoo import MODELS, SLOW, case, copied, run, slow, tensors

pytest.importorskip("numba", reason="only fast versions write over their input")
assert passes
KINDS = ["integer(width=6, frac_width=3)", "mxint", "mxfp", "scaled_integer(width=4)", "nvfp4", "ternary",
         "scaled_integer(granularity=tensor)", "binary_residual"]  # fmt: skip
INT = parse_format(KINDS[0])
X = torch.randn(8, 32, generator=torch.Generator().manual_seed(0))


class Chain(nn.Module):
    """Values read once, twice, through views, given back, and a constant and an input."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        for name in ("of_input", "once", "seen", "twice", "again", "turned", "given", "constant", "dropped"):
            setattr(self, name, nn.Linear(32, 32))
        self.register_buffer("held", torch.linspace(-1, 1, 256).reshape(8, 32))
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        a: Any = self
        h = F.gelu(a.of_input(x))
        h = a.once(h).relu().view(4, 2, 32).reshape(8, 32)
        two = a.seen(h)
        h = a.twice(two) + two
        h = a.again(h.view(8, 32))
        seen = h.view(4, 64)  # the same memory is read again, later
        out = F.silu(a.turned(torch.cat([h, h], 1).tanh()[:, :32]))
        return a.given(out), out, seen, a.constant(a.held), a.dropped(a.drop(F.gelu(seen.reshape(8, 32))))


@cache
def traced_chain() -> tuple[Graph, dict[str, Any]]:
    """The chain, traced once a process, and its weights by key: each test has a store of its own for copies of them."""
    store = WeightStore(Path("unwritten"))
    graph = trace(Chain().eval(), {"x": X}, store).graph
    return graph, {str(w.key): store.get(str(w.key)) for w in graph.weights.values()}


def chain(fmt: Format, work: Path, *ports: str) -> tuple[fx.GraphModule, Graph]:
    """Built with a format at the ports of all Linears."""
    store, (graph, weights) = WeightStore(work), traced_chain()
    assert [store.hold(copy.deepcopy(held)) for held in weights.values()] == [*weights]
    graph = formatted(graph, fmt, store, ports or ("data_in", "weight"))
    return build(graph, store), graph


def formatted(graph: Graph, fmt: Format, store: WeightStore, ports: tuple[str, ...], select: str = "linear") -> Graph:
    where = Select() if select == "all" else Select("type", (select,))
    return quantize(graph, QuantizeOptions((Rule(where, dict.fromkeys(ports, fmt)),)), Context(store))[0]


def quietly(module: nn.Module, **inputs: Tensor) -> Any:
    with in_place(module), torch.no_grad():
        return module(**inputs)


def spent(module: nn.Module, call: Callable[[], Any]) -> list[str]:
    """Effectives that gave their own input back."""
    found: list[str] = []
    for name, each in module.named_modules():
        if isinstance(each, Effective):

            def forward(x: Tensor, name: str = name, inner: Any = each.forward) -> Tensor:
                y = inner(x)
                found.extend([name] if y is x else [])
                return y

            each.forward = forward  # type: ignore[method-assign]
    call()
    return found


def plain(paths: Iterable[str]) -> set[str]:
    return {p.removeprefix("effective.").removesuffix("_data_in") for p in paths}


def backward(module: nn.Module) -> dict[str, Any]:
    """Gradients of the parameters."""
    module.zero_grad()
    torch.stack([(v * torch.linspace(-1, 1, v.numel()).reshape(v.shape)).sum() for v in module(x=X)]).sum().backward()
    return {n: p.grad for n, p in module.named_parameters()}


def equal(got: Any, want: Any) -> bool:
    return all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(got, want, strict=True))


def test_writes_over_what_nothing_else_reads(tmp_path: Path) -> None:
    module, _ = chain(INT, tmp_path)
    held = module.meta[EXCLUSIVE][1]
    own = plain(p for p, o in held.items() if o.input)
    assert plain(p for p, o in held.items() if o.trained) == {"once"}
    assert own == {"once", "seen", "again", "turned", "dropped"}
    written = spent(module, lambda: quietly(module, x=X))
    assert plain(written) == own - {"turned"}  # its rows lie apart


@pytest.mark.slow
@pytest.mark.parametrize("text", KINDS)
def test_results_inputs_and_constants_are_as_without(text: str, tmp_path: Path) -> None:
    module, _ = chain(parse_format(text), tmp_path, "data_in", "weight", "data_out")
    x, state = X.clone(), copied(module.state_dict())
    with torch.no_grad():
        want = module(x=x)
    for _ in range(2):
        assert equal(quietly(module, x=x), want)
    assert torch.equal(x, X) and all(torch.equal(v, state[n]) for n, v in module.state_dict().items())
    assert torch.equal(module.held, torch.linspace(-1, 1, 256).reshape(8, 32))
    with torch.no_grad():
        assert equal(module(x=x), want)


def test_only_while_it_lasts(tmp_path: Path) -> None:
    module, _ = chain(INT, tmp_path)
    assert spent(module, lambda: module(x=X)) == []
    with pytest.raises(KeyError), in_place(module):
        raise KeyError
    assert not any(m.exclusive.input for m in module.modules() if isinstance(m, Effective))


@pytest.mark.slow
@pytest.mark.parametrize("text", KINDS)
def test_gradients_are_as_without(text: str, tmp_path: Path) -> None:
    """Values and gradients are written over where they are a format's own, some of them stopped; whoever adds up
    gradients of two readers is left alone."""
    fmt = parse_format(text)
    want = backward(chain(fmt, tmp_path / "a", "data_in", "weight", "data_out")[0])
    module = chain(fmt, tmp_path / "b", "data_in", "weight", "data_out")[0]
    with in_place(module):
        got = backward(module)
        again = backward(module)
    assert len(want) == 18 and all(torch.equal(got[n], want[n]) for n in want)
    assert all(torch.equal(again[n], want[n]) for n in want)


def test_writes_over_values_and_gradients_in_training(tmp_path: Path) -> None:
    module, _ = chain(parse_format("mxfp"), tmp_path)
    with in_place(module):
        assert plain(spent(module, lambda: backward(module))) == {"once"}


def test_who_hears_gradients_keeps_what_was_told(tmp_path: Path) -> None:
    module, _ = chain(parse_format("mxfp"), tmp_path)
    kept: list[tuple[Tensor, Tensor]] = []

    def keep(_: Any, given: Any, result: Any) -> None:
        kept.extend((g, g.clone()) for g in (*given, *result) if isinstance(g, Tensor))

    for name in ("once", "twice", "again"):
        module.get_submodule(name).register_full_backward_hook(keep)
    with in_place(module):
        backward(module)
    assert len(kept) > 4 and all(torch.equal(a, b) for a, b in kept)


def test_who_has_hooks_keeps_what_was_told(tmp_path: Path) -> None:
    """A hook on the node before a format, on the format itself, on all modules there are."""
    module, graph = chain(INT, tmp_path)
    kept: list[tuple[Tensor, Tensor]] = []

    def keep(_: Any, inputs: Any, result: Any = None) -> None:
        kept.extend((v, v.clone()) for v in (*inputs, result) if isinstance(v, Tensor))

    place: Any = nn.modules.module
    for hook in (
        lambda: module.get_submodule("once").register_forward_hook(keep),
        lambda: module.get_submodule("effective.once_data_in").register_forward_pre_hook(keep),
        lambda: place.register_module_forward_hook(keep),
    ):
        handle = hook()
        kept.clear()
        quietly(module, x=X)
        handle.remove()
        assert kept and all(torch.equal(a, b) for a, b in kept)
    told: list[tuple[Tensor, Tensor]] = []
    watched = tap(
        module, graph, {n.id: ("data_in", "data_out") for n in graph}, lambda *a: told.append((a[2], a[2].clone()))
    )
    with torch.no_grad():
        watched({"x": X})
    assert len(told) > 15 and all(torch.equal(a, b) for a, b in told)


def test_not_where_the_code_was_changed(tmp_path: Path) -> None:
    """Someone has put in a second reader since."""
    module, _ = chain(INT, tmp_path)
    with torch.no_grad():
        want = module(x=X)
    twin = copy.deepcopy(module)
    assert spent(twin, lambda: quietly(twin, x=X))
    gelu = next(n for n in module.graph.nodes if "gelu" in n.name)
    end = next(n for n in module.graph.nodes if n.op == "output")
    with module.graph.inserting_before(end):
        end.args = ([*end.args[0], module.graph.call_function(torch.neg, (gelu,))],)
    module.recompile()
    got = quietly(module, x=X)
    assert equal(got[:-1], want) and torch.equal(got[-1], -F.gelu(F.linear(INT.forward(X), *effective(module))))


def effective(module: nn.Module) -> tuple[Tensor, Tensor]:
    layer: Any = module.get_submodule("of_input")
    return layer.tensor("weight"), layer.tensor("bias")


@pytest.mark.parametrize("name", [slow(n) if n in SLOW else n for n in MODELS])
def test_models_of_all_kinds_give_the_same(name: str) -> None:
    """With a format on all that takes one; twice, since what was written over must not be read by the next run."""
    held = case(name)
    for text in ("integer(width=6, frac_width=4)", "scaled_integer(width=4)"):
        ports = ("data_in", "data_out", "weight")
        graph = formatted(held.traced.graph, parse_format(text), held.store, ports, "all")
        module = held.build(graph)
        with torch.no_grad():
            want = run(module, copied(held.example))
        with in_place(module), torch.no_grad():
            assert equal(run(module, copied(held.example)), want)
            assert equal(run(module, copied(held.example)), want)
        assert trained(held, held.build(graph), False) == trained(held, held.build(graph), True)


def trained(held: Any, module: nn.Module, quiet: bool) -> list[list[float]]:
    """Gradients of a training step."""
    torch.manual_seed(0)
    module.train()
    with in_place(module) if quiet else nullcontext():
        values = [v for v in tensors(module(**copied(held.example))) if v.is_floating_point() and v.requires_grad]
        if values:
            torch.stack([(v.nan_to_num().clamp(-9, 9) * 0.1).sum().float() for v in values]).sum().backward()
    return [p.grad.nan_to_num().flatten().tolist() for p in module.parameters() if p.grad is not None]
