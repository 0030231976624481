"""The report of sparsity tells what is zero, whatever made it so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from espalier.model.errors import PassError
from espalier.model.store.weights import Tensor
from espalier.passes.analysis.sparsity import SparsityOptions, sparsity
from espalier.passes.base import Context, Row
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.prune_activations import PruneActivationsOptions
from espalier.passes.transform.prune import prune
from espalier.passes.transform.prune_activations import prune_activations
from tests.model.zoo import case


def rows(name: str, options: PruneOptions | None = None) -> dict[str, Row]:
    held = case(name)
    graph = prune(held.graph, options, Context(held.store))[0] if options else held.graph
    same, report = sparsity(graph, SparsityOptions(), Context(held.store, base=held.graph))
    assert same is graph and report.summary["weights"] == len(report.rows)
    assert report.summary["zeros"] == sum(r["zeros"] for r in report.rows)
    return {r["weight"]: r for r in report.rows}


def test_a_dense_model_has_no_zeros() -> None:
    for row in rows("mlp").values():
        assert (row["zeros"], row["empty_rows"], row["empty_columns"], row["dropped"]) == (0, 0, 0, 0)
        assert row["most_of_4"] == 4 and row["kept_l1"] == 1 and row["pattern"] is None


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_whether_n_of_4_holds_is_seen_in_the_weight(n: int) -> None:
    for name in ("mlp", "image", "bert"):
        found = rows(name, PruneOptions(0.5, pattern="n:m", n=n, m=4))
        assert {r["most_of_4"] for r in found.values()} <= {n, min(n, 3)}
        assert all(r["pattern"] == f"{n}:4" for r in found.values()) or n == 4
    assert max(r["most_of_4"] for r in rows("mlp", PruneOptions(0.3, "random")).values()) > 2


def test_what_is_all_zero_is_counted() -> None:
    found = rows("mlp", PruneOptions(0.5, pattern="block", rows=1, columns=6))["first.weight"]
    assert (found["empty_rows"], found["rows"], found["dropped"]) == (3, 6, found["zeros"])
    found = rows("mlp", PruneOptions(0.5, pattern="block", rows=6, columns=1))["first.weight"]
    assert (found["empty_columns"], found["columns"], found["pattern"]) == (2, 4, "6×1 blocks")


def test_stored_zeros_count_and_baseline_masks_are_compared() -> None:
    held = case("mlp")
    old = held.graph.weights["first.weight"]
    values = np.ones(old.shape, np.float32)
    values[0] = 0
    key = held.store.hold(Tensor(values, "float32"))
    graph = held.graph.with_weights({"first.weight": replace(old, key=key)})
    row = sparsity(graph, SparsityOptions(), Context(held.store))[1].rows[0]
    assert (row["zeros"], row["empty_rows"], row["dropped"], row["restored"]) == (4, 1, None, None)
    base, _ = prune(graph, PruneOptions(0.25), Context(held.store))
    now, _ = prune(graph, PruneOptions(0.5), Context(held.store))
    row = sparsity(now, SparsityOptions(), Context(held.store, base=base))[1].rows[0]
    assert (row["dropped"], row["restored"]) == (6, 0)


def test_activations_have_rows() -> None:
    held = case("mlp")
    graph, _ = prune_activations(held.graph, PruneActivationsOptions(sparsity=0.25), Context(held.store))
    report = sparsity(graph, SparsityOptions(), Context(held.store))[1]
    assert [(r["node"], r["sparsity"]) for r in report.rows if r["port"] == "data_in"] == [
        ("first", 0.25),
        ("second", 0.25),
    ]


def test_without_weights_there_is_nothing_to_tell() -> None:
    graph = case("mlp").graph
    hollow = graph.with_weights({k: replace(w, key=None) for k, w in graph.weights.items()})
    with pytest.raises(PassError, match="without weights"):
        sparsity(hollow, SparsityOptions(), Context(case("mlp").store))
