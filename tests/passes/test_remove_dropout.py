"""Counting and removing dropout: the labs' first analysis and their first transform."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from espalier.model.document.recipe import Step
from espalier.model.errors import PassError
from espalier.model.graph.check import check
from espalier.model.graph.graph import Ref
from espalier.passes.analysis.count_dropout import count_dropout
from espalier.passes.base import Context, NoOptions, run_step
from espalier.passes.transform.remove_dropout import remove_dropout
from tests.model.zoo import case, run, same

EXPORTED = ("mlp", "image", "attention", "bert", "bert-eager", "gpt2")


@pytest.mark.parametrize("name", EXPORTED)
def test_all_dropouts_go_and_nothing_else_changes(name: str) -> None:
    held = case(name)
    context = Context(held.store)
    counted = count_dropout(held.graph, NoOptions(), context)[1].summary
    count, inside = counted["dropout_count"], counted["in_functions"]
    after, report = remove_dropout(held.graph, NoOptions(), context)
    assert report.summary == {"removed": count, "in_functions": inside} and len(after) == len(held.graph) - count
    assert count_dropout(after, NoOptions(), context)[1].summary == {"dropout_count": 0, "in_functions": 0}
    assert not [p for p in check(after) if p.severity == "error"]
    delta = after.delta(held.graph)
    assert set(delta.removed) == {n.id for n in held.graph if n.op == "dropout"} and not delta.added
    assert inside == len([n for n in held.graph if n.op == "scaled_dot_product_attention"])
    inputs = held.fresh(3, 7)
    assert same(run(held.build(after), inputs), held.expected(inputs))
    built = held.build(after).train()
    if name != "image":  # batch norm also differs in training
        assert same(run(built, inputs), held.expected(inputs))


def test_rows_name_the_modules() -> None:
    held = case("mlp")
    _, counted = count_dropout(held.graph, NoOptions(), Context(held.store))
    assert counted.rows == ({"node": "drop", "module": "drop", "p": 0.5},)
    _, report = remove_dropout(held.graph, NoOptions(), Context(held.store))
    assert report.rows == ({"node": "drop", "module": "drop"},)


def test_dropouts_in_a_row_and_at_the_end() -> None:
    graph = case("mlp").graph
    again = replace(graph["drop"], id="again", args=(Ref("drop"),))
    twice = graph.insert(again).replace(replace(graph.output, args=(Ref("again"),)))
    after, report = remove_dropout(twice, NoOptions(), Context(case("mlp").store))
    assert report.summary == {"removed": 2, "in_functions": 0} and after.output.args == (Ref("act"),)
    assert run(case("mlp").build(after), {"x": torch.ones(2, 4)})[0].shape == (2, 6)


def test_a_model_without_dropout_stays_itself() -> None:
    graph = case("functions").graph
    after, report = remove_dropout(graph, NoOptions(), Context(case("functions").store))
    assert after is graph and report.summary == {"removed": 0, "in_functions": 0}


def test_a_recorded_model_keeps_its_nodes() -> None:
    held = case("choosy")
    with pytest.raises(PassError, match="recorded from a run"):
        run_step(held.graph, Step("remove_dropout", NoOptions()), Context(held.store))
