"""What a search keeps between trials changes no figure by a bit: shared results, leaves, tokens that nobody reads."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from espalier.model.document.recipe import Recipe, Step
from espalier.model.opening import Opened, open_any
from espalier.model.torch.build import build
from espalier.passes.base import Context, run_step
from espalier.passes.recipes.replay import replay
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.search import head_token, results
from espalier.passes.search.evaluator import Evaluator
from espalier.passes.search.expand import expand
from espalier.passes.search.fit import fit
from espalier.passes.search.head_token import Claim, narrow
from espalier.passes.search.results import Results
from espalier.passes.search.reused_modules import Parts, Wired
from espalier.passes.search.spec import SearchSpec, Vary
from espalier.passes.select import Select

ALL = "integer(width=2|4|8), mxint(width=4), scaled_integer(width=4), float"


@pytest.fixture(scope="module")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_any("demo:reviews", tmp_path_factory.mktemp("reviews"))


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_any("demo:digits", tmp_path_factory.mktemp("digits"))


def context(opened: Opened) -> Context:
    source = opened.project.source
    return Context(opened.store, reading=source.reading, base=opened.project.base, callables=opened.callables)


def graphs(opened: Opened, count: int, values: str, *more: Vary) -> Any:
    """Graphs of chosen trials; the second is the first again, with one choice changed."""
    base = opened.project.base
    space = (Vary(select=Select("all"), ports=("weight", "data_in"), values=values), *more)
    found = fit(expand(SearchSpec("s", space), base, Recipe()), base, opened.store)
    chance = random.Random(0)
    params = {c.name: chance.choice(c.values) for c in found.choices}
    for number in range(count):
        yield replay(base, found.apply(Recipe(), params), context(opened)).graph
        changed = found.choices if number else found.choices[-1:]
        params |= {c.name: chance.choice(c.values) for c in changed}


@pytest.mark.slow
@pytest.mark.parametrize("size", [8, 64])
def test_texts_come_to_what_evaluate_tells(reviews: Opened, size: int) -> None:
    score = EvaluateOptions("demo:reviews", "test", limit=96, batch_size=size)
    warm = Evaluator(reviews.project.base, score, context(reviews), ())
    pruned = Vary("sparsity", values="0, 0.5")
    for graph in graphs(reviews, 4, ALL, pruned):
        found = warm.measure(graph)
        told = run_step(graph, Step("evaluate", score), context(reviews)).report.summary
        assert (found["accuracy"], found["loss"]) == (told["accuracy"], told["loss"])
    assert warm.results.values


def test_images_come_to_what_evaluate_tells(digits: Opened) -> None:
    score = EvaluateOptions("demo:digits", limit=64, batch_size=16)
    warm = Evaluator(digits.project.base, score, context(digits), ())
    for graph in graphs(digits, 4, ALL):
        found = warm.measure(graph)
        told = run_step(graph, Step("evaluate", score), context(digits)).report.summary
        assert (found["accuracy"], found["loss"]) == (told["accuracy"], told["loss"])


def batches(opened: Opened, count: int = 3) -> list[dict[str, torch.Tensor]]:
    warm = Evaluator(
        opened.project.base, EvaluateOptions("demo:reviews", "test", limit=64 * count), context(opened), ()
    )
    return [inputs for inputs, _ in warm.batches]


def logits(opened: Opened, kept: Results, graph: Any) -> Callable[[int], torch.Tensor]:
    run = kept.runner(graph, opened.store, opened.callables or {})
    return lambda place: run(place)["logits"]


@pytest.mark.slow
@pytest.mark.parametrize("most", [results.MAX_BYTES, 100_000, 0])
def test_logits_are_equal_however_much_is_kept(reviews: Opened, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MAX_BYTES", most)
    given = batches(reviews)
    kept = Results(given)
    for number, graph in enumerate(graphs(reviews, 4, "integer(width=3|6), float")):
        plain = build(graph, reviews.store)
        run = logits(reviews, kept, graph)
        places = (0, 2) if number == 1 else (2, 1, 0)  # a trial that ended early has seen some batches only
        with torch.no_grad():
            assert all(torch.equal(run(p), plain(**given[p])["logits"]) for p in places)
        assert kept.bytes <= most
    assert bool(kept.values) == (most > 0)


@pytest.mark.slow
def test_what_is_the_same_is_not_computed_again(reviews: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    value = Results.value_of

    def counted(self: Results, wired: Wired, node: Any, values: Any, place: int) -> Any:
        called.append(node.op)
        return value(self, wired, node, values, place)

    monkeypatch.setattr(Results, "value_of", counted)
    kept, counts = Results(batches(reviews, 1)), list[int]()
    first, second = graphs(reviews, 2, "integer(width=3|6)")
    for graph in (first, second, first, second):
        called.clear()
        with torch.no_grad():
            logits(reviews, kept, graph)(0)
        counts.append(sum(op.startswith("call") for op in called))
    assert counts[1] == counts[0]  # only now it is known that all but the last layer comes again; it is kept
    assert max(counts[2:]) < counts[0] / 4


@pytest.mark.slow
def test_chance_is_thrown_anew(reviews: Opened) -> None:
    base = reviews.project.base
    wish = SearchSpec("s", (Vary(ports=("weight", "data_in"), values="binary(stochastic=True)"),))
    space = expand(wish, base, Recipe())
    graph = replay(base, space.apply(Recipe(), {c.name: c.values[0] for c in space.choices}), context(reviews)).graph
    kept = Results(batches(reviews, 1))
    with torch.no_grad():
        found = [logits(reviews, kept, graph)(0) for _ in range(3)]
    assert not torch.equal(found[1], found[2])


def test_tokens_that_nobody_reads_are_left_out(reviews: Opened) -> None:
    wired = Wired(reviews.project.base, reviews.store, {}, Parts())
    claims = narrow(wired)
    assert {c.kind for c in claims} == {"linear", "layer_norm", "gelu"} and all(c.token == 0 for c in claims)
    assert sum(c.kind == "linear" for c in claims) == 3  # of the last block: attention output, in, out


def test_where_sums_run_in_another_order_all_is_computed(reviews: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """A product that treats few rows otherwise: were it relied on, the figures would be others."""
    given = batches(reviews, 1)
    graph = reviews.project.base
    plain, linear = build(graph, reviews.store), torch.nn.functional.linear

    def odd(x: Any, w: Any, b: Any = None) -> Any:
        found = linear(x, w, b)
        return found if x.dim() == 3 or w.shape[0] < 8 or x.shape[1] == w.shape[0] == 2 else found + 1e-3

    with torch.no_grad():
        whole = plain(**given[0])["logits"]
        head_token.holds_at.cache_clear()
        monkeypatch.setattr(torch.nn.functional, "linear", odd)
        symbols = {**graph.symbols, **dict(zip(("batch", "seq"), given[0]["input_ids"].shape, strict=False))}
        assert not Claim("linear", ("batch", "seq", 16), 0, 16, True).holds(symbols)
        odd_whole = plain(**given[0])["logits"]
        found = logits(reviews, Results(given), graph)(0)
    head_token.holds_at.cache_clear()
    assert torch.equal(found, odd_whole) and not torch.equal(whole, odd_whole)


def test_shared_leaves_do_not_mix(reviews: Opened, tmp_path: Path) -> None:
    """Other weights under the same names are other leaves."""
    base = reviews.project.base
    kept = Results(batches(reviews, 1))
    name = next(n for n in base.weights if n.endswith("classifier.weight"))
    held = reviews.store.get(base.weights[name].key or "")
    key = reviews.store.hold(type(held)(held.array * 2, held.dtype))
    other = base.with_weights({name: replace(base.weights[name], key=key)})
    with torch.no_grad():
        for graph in (base, other, base):
            plain = build(graph, reviews.store)(**kept.batches[0])["logits"]
            assert torch.equal(logits(reviews, kept, graph)(0), plain)
