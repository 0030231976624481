"""The configuration of one node on others gives them the same choices, and nothing that they cannot have."""

from __future__ import annotations

import pytest

import espalier as es
from espalier.model.document.codec import decode, encode
from espalier.model.document.recipe import Recipe
from espalier.model.errors import PassError
from espalier.passes.choices.configuration import Configuration, configuration_of, with_configuration


def digits() -> es.Model:
    """The demo with choices of several kinds on its first layer."""
    model = es.open("demo:digits-mlp")
    model.quantize("fc1", weight="mxint4", data_in="int8")  # type: ignore[attr-defined]
    model.prune("fc1", sparsity=0.5, pattern="n:m", n=1, m=4)  # type: ignore[attr-defined]
    return model.lora("fc1", rank=4, alpha=12.0)  # type: ignore[attr-defined,no-any-return]


def applied(model: es.Model, recipe: Recipe) -> es.Model:
    """The model after the further steps of a recipe."""
    for step in recipe.steps[len(model.project.recipe) :]:
        model.run(step.pass_name, **{k: v for k, v in encode(step.options).items()})
    return model


def test_choices_are_those_of_the_node() -> None:
    model = digits()
    chosen = configuration_of(model["fc1"])
    assert decode(Configuration, encode(chosen)) == chosen, "it goes through the clipboard"
    again = applied(model, with_configuration(model.project.recipe, model.project.graph, ["fc2", "fc3"], chosen))
    for name in ("fc2", "fc3"):
        assert configuration_of(again[name]) == chosen
        assert again[name].sparsity["weight"].size == (1, 4)


def test_a_plain_node_takes_choices_away() -> None:
    model = digits()
    plain = configuration_of(model["fc2"])
    assert plain.describe() == "float"
    again = applied(model, with_configuration(model.project.recipe, model.project.graph, ["fc1"], plain))
    assert not again["fc1"].precision and not again["fc1"].adapters
    assert not again["fc1"].sparsity or not again["fc1"].sparsity["weight"].zeros


def test_nodes_take_what_they_can() -> None:
    model = digits()
    chosen = configuration_of(model["fc1"])
    relu = next(n.id for n in model.nodes() if n.op == "relu")
    recipe = with_configuration(model.project.recipe, model.project.graph, [relu], chosen)
    again = applied(model, recipe)
    assert "weight" not in again[relu].precision and not again[relu].sparsity
    with pytest.raises(PassError, match="None of the selected nodes"):
        with_configuration(model.project.recipe, model.project.graph, [model.project.graph.output.id], chosen)


def test_activation_pruning_goes_too() -> None:
    model = es.open("demo:digits-mlp")
    model.prune_activations("fc1", sparsity=0.5)  # type: ignore[attr-defined]
    assert model["fc1"].sparsity["data_in"].flows
    recipe = with_configuration(model.project.recipe, model.project.graph, ["fc1"], Configuration())
    again = es.open("demo:digits-mlp")
    for step in recipe.steps:
        again.run(step.pass_name, **encode(step.options))
    assert not again["fc1"].sparsity
