"""Hints for names that nobody has: the one that was meant, or a few."""

from __future__ import annotations

import pytest
from transformers import BertConfig

from espalier.model.errors import PLUG_IN, FormatError, nearest, unknown
from espalier.model.formats.base import parse_format

KEYS = [*BertConfig().to_dict()]


@pytest.mark.parametrize(
    ("wish", "meant"),
    [
        ("num_layers", "num_hidden_layers"),  # not num_labels, whose letters are more alike
        ("num_heads", "num_attention_heads"),
        ("hidden_dropout", "hidden_dropout_prob"),
        ("hiden_size", "hidden_size"),
        ("num_label", "num_labels"),
    ],
)
def test_all_words_count_more_than_like_letters(wish: str, meant: str) -> None:
    assert nearest(wish, [*KEYS, "num_labels"]) == f"Did you mean {meant!r}?"


def test_of_many_names_three_are_told_and_of_few_all() -> None:
    many = [f"name{i:02}" for i in range(50)]
    assert nearest("zzz", many).startswith("Valid names nearest to it: ")
    assert nearest("zzz", many).count(",") == 2 and "(of 50)" in nearest("zzz", many)
    assert nearest("zzz", ["a", "b", "c"]) == "Valid names: a, b, c."


def test_a_name_that_a_plug_in_may_add_is_told_so_unless_it_is_a_slip() -> None:
    assert unknown("accuraci", ["accuracy", "loss"]) == "Did you mean 'accuracy'?"
    assert unknown("my_cost", ["accuracy", "loss"]) == f"Valid names: accuracy, loss. {PLUG_IN}"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("int3", "Write scaled_integer(width=3)."),
        ("mxint6", "Write mxint(width=6)."),
        ("int44a", "Did you mean 'int4'"),
    ],
)
def test_a_format_of_another_width_is_told_how_to_be_written(name: str, hint: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_format(name)
    assert caught.value.hint.startswith(hint)
