"""Questions with answers in their contexts, in the columns of SQuAD (https://rajpurkar.github.io/SQuAD-explorer/)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from espalier.model.borders import tried
from espalier.model.data.base import LoadOptions
from espalier.model.data.columns import choose_columns
from espalier.model.data.rows import Rows
from espalier.model.data.tables import is_list
from espalier.model.errors import DataError

QUESTIONS = ("question", "query")
CONTEXTS, ANSWERS = ("context", "passage", "paragraph"), ("answers", "answer")
FORM = "Write {'text': ['Paris'], 'answer_start': [17]}, with character numbers in the context."
Answer = tuple[str, int]  # text, first character in the context


def answer_rows(table: Any, source: str, options: LoadOptions) -> Rows:
    """(question, context) of each row, and its answers; raises DataError for answers that are not in the context."""
    table = _flat(table)
    names = [str(c) for c in table.columns]
    context, label = choose_columns(names, options.text, options.label, source, CONTEXTS, ANSWERS)
    question = next((n for n in names if n.strip().lower() in QUESTIONS), None)
    if question is None:
        raise DataError(f"{source} has no column of questions; it has {', '.join(names)}.",
                        "Call the column question.")  # fmt: skip
    texts = [[_text(cell, name, at, source) for at, cell in enumerate(table[name].tolist(), 1)]
             for name in (question, context)]  # fmt: skip
    samples = tuple(zip(*texts, strict=True))
    cells = table[label].tolist()
    return Rows(samples, tuple(_answers(cell, samples[at][1], at + 1, source) for at, cell in enumerate(cells)))


def _flat(table: Any) -> Any:
    """A table of questions: SQuAD's own files have articles of paragraphs of questions in `data`."""
    if "data" not in table.columns or "context" in table.columns:
        return table
    rows = [
        {"question": qa["question"], "context": part["context"], "answers": qa.get("answers", [])}
        for articles in table["data"].tolist() if isinstance(articles, list)
        for article in articles
        for part in article["paragraphs"]
        for qa in part["qas"]
    ]  # fmt: skip
    return type(table)(rows) if rows else table


def _text(cell: Any, column: str, row: int, source: str) -> str:
    if not isinstance(cell, str) or not cell.strip():
        raise DataError(f"Row {row} of {source} has no text in {column}.", "Fill it, or remove the row.")
    return cell


def _answers(cell: Any, context: str, row: int, source: str) -> tuple[Answer, ...]:
    """The answers of a cell, checked against the context; none for a question that it does not answer."""
    if isinstance(cell, str) and cell.lstrip()[:1] in ("{", "["):
        cell = tried(lambda: json.loads(cell), cell)
    if isinstance(cell, Mapping):
        if "text" not in cell:
            raise DataError(f"The answers of row {row} of {source} have no entry text.", FORM)
        texts, starts = _listed(cell["text"]), _listed(cell.get("answer_start"))
        starts = starts or [None] * len(texts)
        if len(texts) != len(starts):
            raise DataError(f"Row {row} of {source} has {len(texts)} answers and {len(starts)} places of them.", FORM)
        pairs = list(zip(texts, starts, strict=True))
    elif isinstance(cell, str) or is_list(cell):
        pairs = [_pair(item, row, source) for item in _listed(cell)]
    else:
        raise DataError(f"Row {row} of {source} has no answers.",
                        f"{FORM} Without an answer both lists are empty.")  # fmt: skip
    return tuple(_answer(text, start, context, row, source) for text, start in pairs)


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    if is_list(value):
        return value.tolist() if hasattr(value, "tolist") else list(value)
    return [value]


def _pair(item: Any, row: int, source: str) -> tuple[Any, Any]:
    if isinstance(item, str):
        return item, None
    if isinstance(item, Mapping) and "text" in item:
        return item["text"], item.get("answer_start")
    raise DataError(f"Row {row} of {source} has the answer {str(item)[:40]!r}, which is no text.", FORM)


def _answer(text: Any, start: Any, context: str, row: int, source: str) -> Answer:
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"Row {row} of {source} has an empty answer.",
                        "Give its text; without an answer leave the list empty.")  # fmt: skip
    at = context.find(text) if start is None else _number(start)
    if at < 0 or context[at : at + len(text)] != text:
        where = "" if start is None else f" at character {start}"
        raise DataError(f"The answer {text[:40]!r} of row {row} of {source} is not in its context{where}.",
                        "Correct its text and answer_start, which counts characters from 0.")  # fmt: skip
    return text, at


def _number(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and value == int(value) else -1
