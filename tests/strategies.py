"""Hypothesis strategies of the typed values: formats, options, recipes, arguments; and plain JSON."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from espalier.model.document.recipe import Recipe, Step
from espalier.model.formats.base import Format
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Ref
from espalier.model.graph.meta import Sparsity, TensorMeta, Weight
from espalier.model.graph.node import Arg, Slice, TorchConst
from espalier.passes.base import NoOptions
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.quantize import PORTS, QuantizeOptions, Rule
from espalier.passes.select import Select

words = st.text("abcxyz_.0129", min_size=1, max_size=8)
texts = st.text(max_size=8)
finite = st.floats(allow_nan=False)

formats: st.SearchStrategy[Format] = st.builds(
    Integer,
    width=st.integers(1, 32),
    frac_width=st.integers(-32, 64),
    signed=st.booleans(),
    rounding=st.sampled_from(("nearest_even", "floor")),
)


def selects(ids: st.SearchStrategy[str] = words, ops: st.SearchStrategy[str] = words) -> st.SearchStrategy[Select]:
    """Selections of every kind over the given node ids and ops."""
    some = lambda values: st.lists(values, min_size=1, max_size=3).map(tuple)  # noqa: E731
    return st.one_of(
        st.just(Select("all")),
        st.builds(Select, st.just("type"), some(ops)),
        st.builds(Select, st.sampled_from(("name", "module")), some(ids)),
        st.builds(Select, st.just("regex"), some(ids.map(lambda i: f"^{i}"))),
    )


def quantize_options(chosen: st.SearchStrategy[Select]) -> st.SearchStrategy[QuantizeOptions]:
    """One to three rules."""
    choice = st.dictionaries(st.sampled_from(PORTS), st.none() | formats, min_size=1)
    return st.builds(QuantizeOptions, st.lists(st.builds(Rule, chosen, choice), min_size=1, max_size=3).map(tuple))


def prune_options(chosen: st.SearchStrategy[Select]) -> st.SearchStrategy[PruneOptions]:
    """Any ratio, method and scope."""
    method, scope = st.sampled_from(("l1", "random")), st.sampled_from(("local", "global"))
    return st.builds(PruneOptions, st.floats(0, 1), method, scope, chosen)


def steps(chosen: st.SearchStrategy[Select]) -> st.SearchStrategy[Step]:
    """A step of a registered transform."""
    seed, enabled = st.integers(0, 2**31), st.booleans()
    return st.one_of(
        st.builds(Step, st.just("quantize"), quantize_options(chosen), seed, enabled),
        st.builds(Step, st.just("prune"), prune_options(chosen), seed, enabled),
        st.builds(Step, st.just("remove_dropout"), st.just(NoOptions()), seed, enabled),
    )


recipes = st.builds(Recipe, st.lists(steps(selects()), max_size=4).map(tuple))

_constants = st.builds(
    TorchConst, st.sampled_from(("dtype", "device", "layout", "memory_format")), st.sampled_from(("float32", "cpu"))
)
_refs = st.builds(Ref, words, st.integers(0, 3))
_leaves = st.one_of(
    st.none(), st.booleans(), st.integers(), finite, texts, st.complex_numbers(allow_nan=False), _refs, _constants
)
args: st.SearchStrategy[Arg] = st.recursive(
    _leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=3).map(tuple), st.builds(Slice, inner, inner, inner)),
    max_leaves=6,
)

dims = st.one_of(st.integers(0, 9), st.sampled_from(("batch", "seq", "batch*seq", "seq//2+1")))
metas = st.builds(TensorMeta, st.lists(dims, max_size=4).map(tuple), st.sampled_from(("float32", "int64", "bfloat16")))
weights = st.builds(
    Weight,
    st.none() | st.text("0123456789abcdef", min_size=32, max_size=32),
    st.lists(st.integers(0, 9), max_size=3).map(tuple),
    st.sampled_from(("float32", "int8")),
    st.sampled_from(("parameter", "buffer", "constant")),
    st.booleans(),
)
sparsities = st.builds(
    Sparsity,
    st.sampled_from(("l1", "random")),
    st.floats(0, 1),
    st.sampled_from(("local", "global")),
    st.none() | words,
    st.integers(0, 99),
)

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 99) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
