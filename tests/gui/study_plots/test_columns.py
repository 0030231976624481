"""The columns that all charts draw from, and how choices are called."""

from __future__ import annotations

import pytest

from espalier.app.features.search.charts.axes import Axis, step_of
from espalier.app.features.search.charts.board import StudyBoard
from espalier.app.figures.study.data import Scale, Study
from espalier.app.figures.study.labels import bits_of, plain
from espalier.app.figures.study.short_names import short_names
from espalier.passes.search.space import Choice
from espalier.passes.search.spec import Goal
from espalier.passes.search.trial import Trial
from tests.gui.search.made_study import choices

pytestmark = pytest.mark.gui


def formats(*names: str) -> list[Choice]:
    return [Choice(n, "format") for n in names]


def test_names_lose_what_they_share_and_stay_apart() -> None:
    made = short_names(choices(8))
    assert made["bert.encoder.layer.0.attention.query.dense weight"] == "enc 0 · attn.q"
    assert made["learning rate"] == "learning rate" and len(set(made.values())) == len(made)
    assert short_names(formats("first.second weight")) == {"first.second weight": "first.second"}


def test_layers_of_a_transformer_are_called_by_number_and_part() -> None:
    """As a search calls them: by their nodes, whose names have no dots."""
    at = "bert_encoder_layer_11_"
    made = short_names(formats(
        "bert_embeddings_word_embeddings.weight", f"{at}attention_self_query.weight",
        f"{at}attention_output_dense.weight", f"{at}attention_output_LayerNorm.weight",
        f"{at}intermediate_dense.weight", f"{at}output_dense.weight",
        "scaled_dot_product_attention_1.weight", "bert_pooler_dense.weight",
        "classifier.weight"))  # fmt: skip
    assert list(made.values()) == [
        "emb.word", "enc 11 · attn.q", "enc 11 · attn.out", "enc 11 · attn.out.norm", "enc 11 · inter", "enc 11 · out",
        "sdpa_1", "pooler", "classifier"]  # fmt: skip


def test_names_of_other_models_keep_what_belongs_together() -> None:
    made = short_names(formats("transformer_h_0_attn_c_attn.weight", "transformer_h_0_ln_1.weight",
                               "transformer_ln_f.weight", "transformer_wte.weight"))  # fmt: skip
    assert list(made.values()) == ["h 0 · attn.c_attn", "h 0 · ln_1", "ln_f", "wte"]
    assert list(short_names(formats("bert.encoder.layer.0", "bert.encoder.layer.1")).values()) == ["enc 0", "enc 1"]


def test_ports_and_entries_are_told_where_they_differ() -> None:
    made = short_names(formats("early fc1.weight", "early fc1.data_in", "late fc2.weight"))
    assert list(made.values()) == ["early · fc1 · weight", "early · fc1 · data_in", "late · fc2 · weight"]


def test_a_longer_decoder_is_not_taken_for_the_models_name() -> None:
    made = short_names(formats("encoder_block_0_layer_0_k.weight", *(
        f"decoder_block_{i}_layer_{j}_k.weight" for i in range(2) for j in range(2))))  # fmt: skip
    assert all(text.startswith("dec ") is name.startswith("decoder") for name, text in made.items()), made


@pytest.mark.parametrize("names", [
    ("m_layer_0_self.weight", "m_layer_0_self_dense.weight", "m_layer_0_dense.weight"),  # all of it is filling
    ("net_a_b.weight", "net.a.b.weight"),
    tuple(f"start_{'x' * 40}{i}{'y' * 40}_end.weight" for i in range(3)),
])  # fmt: skip
def test_no_two_names_become_the_same(names: tuple[str, ...]) -> None:
    made = short_names(formats(*names))
    assert set(made) == set(names) and len(set(made.values())) == len(names)


def test_long_names_keep_both_ends() -> None:
    names = ("first.of.a.very.long.path.to.all.that.is", "second.of.a.very.long.path.to.nothing.at.all")
    made = short_names([Choice(n, "option") for n in names])
    assert made[names[0]].startswith("first.") and made[names[1]].endswith(".all")
    assert all(len(t) <= 34 for t in made.values())


def test_a_format_that_is_fitted_to_each_layer_is_called_so(board: StudyBoard) -> None:
    values = ("integer(width=8)", "integer(width=8, frac_width=4)", "mxint(width=4)", "float")
    for fit, told in ((True, "int 8 fitted"), (False, plain("integer(width=8)"))):
        scale = Scale(Choice("a weight", "format", values, fit=fit))
        assert [scale.text(i) for i in range(4)] == [told, *map(plain, values[1:])]
    study = [Trial(i, "complete", {"a weight": v}, (0.5,)) for i, v in enumerate(values)]
    board.tiles[0].show_kind("Choice map")
    board.show_study(study, (Goal("accuracy"),), [Choice("a weight", "format", values, fit=True)])
    chart = board.tiles[0].chart
    assert chart._chosen(Axis("a weight", "a", chart.study.scales["a weight"]), 0) == "int 8 fitted"


def test_bits_of_formats_and_of_what_is_none() -> None:
    assert bits_of("integer(width=4, frac_width=2)") == 4 and bits_of("float") == 32 and bits_of("gelu") is None


def test_a_study_without_its_space_gets_axes_from_what_was_chosen() -> None:
    study = Study(
        [Trial(3, "complete", {"a": "x"}, (0.5,)), Trial(7, "complete", {"a": "y"}, (0.6,))], (Goal("accuracy"),)
    )
    assert study.scales["a"].values == ["x", "y"] and study.number.tolist() == [3, 7]
    assert study.best("accuracy").tolist() == [0.5, 0.6]


def test_the_sum_of_goals_is_a_figure_of_its_own() -> None:
    goals = (Goal("accuracy"), Goal("weight_bits", weight=0.1))
    study = Study([Trial(0, "complete", {}, (0.4,), {"accuracy": 0.8, "weight_bits": 4.0})], goals)
    assert study.names[0] == "sum of goals" and study.merit("sum of goals").tolist() == [0.4]
    assert study.merit("weight_bits").tolist() == [-4.0]


def test_sizes_are_labelled_at_round_numbers_of_their_unit() -> None:
    assert step_of("size_bytes", 1.9 * 1024**3, 4) == 0.5 * 1024**3
    assert step_of("size_bytes", 300 * 1024**2, 4) == 100 * 1024**2
    assert step_of("weight_bits", 1.9e9, 4) == 5e8 and step_of("size_bytes", 0.5, 4) == 0.2
