"""What a word means: one lookup over the glossary, the formats, the passes and the costs. Free of Qt.

The texts are those of the guide: its glossary, and the definitions that its references are generated from.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from espalier.app.glossary import SECTIONS, common_words, first_term, terms
from espalier.app.translation import english, tr
from espalier.model.formats.base import Format
from espalier.model.registry import FORMATS, PASSES
from espalier.passes.base import PassSpec
from espalier.passes.costs.base import COSTS, Cost

GLOSSARY = "glossary.md"
MARKS = " ▴▾*:…"  # of sorted columns, changed texts and actions
MOST = 3  # explanations of a word


@dataclass(frozen=True, slots=True)
class Explanation:
    """`kind`: a key of the window's KINDS. `page` and `section`: where the guide says more; empty: nowhere."""

    title: str
    kind: str
    text: str
    formula: str = ""
    source: str = ""
    page: str = ""
    section: str = ""


def explain(word: str) -> tuple[Explanation, ...]:
    """The explanations of a word or of the label of a format, at most MOST; none for an unknown one."""
    found: dict[tuple[str, str], Explanation] = {}
    for key in _spellings(word):
        for entry in _entries(key):
            found.setdefault((entry.kind, entry.title), entry)
        if found:
            break
    return tuple(found.values())[:MOST]


def explain_first(words: Iterable[str]) -> tuple[str, tuple[Explanation, ...]]:
    """The first word that is explained, with its explanations; the first word and none if none is."""
    first = ""
    for word in words:
        first = first or word
        if entries := explain(word):
            return word, entries
    return first, ()


def explain_within(text: str) -> tuple[str, tuple[Explanation, ...]]:
    """The first term of the glossary in a text, with its explanations."""
    word = first_term(text)
    return word, explain(word) if word else ()


def titles() -> Iterator[str]:
    """The words that people look for: terms, and the titles of formats, passes and costs, plug-ins' too."""
    yield from terms()
    for registry in (FORMATS, PASSES, COSTS):
        for _, item in registry.items():
            yield item.title


def _spellings(word: str) -> list[str]:
    """The word as it is, then without what a label adds to it, and in the singular."""
    plain = english(word).strip().strip(MARKS).strip().casefold().replace("_", " ")
    forms = [plain, re.sub(r"^as \S+$", "as", plain)]  # the columns of a confusion matrix
    for pattern in (r"\s*\(.*\)$", r"\s+db$", r"\s+(before|after|now)$", r"^(weighted|worst|mean|total)\s+", r"s$"):
        forms += [re.sub(pattern, "", f) for f in forms]  # time (s), worst SQNR (dB), zeros before
    return list(dict.fromkeys(forms))


def _entries(key: str) -> Iterator[Explanation]:
    if not key:
        return
    headings = {kind: heading.removeprefix("## ").casefold().replace(" ", "-") for heading, kind in SECTIONS.items()}
    for kind, table in {"term": terms(), **common_words()}.items():
        for spelling, line in table.items():
            if key == spelling.casefold():
                title, _, meaning = tr(line).partition(": ")
                section = headings.get(kind, "")
                yield Explanation(title, kind, _sentence(meaning), page=GLOSSARY, section=section)
    yield from (_format(f) for _, f in FORMATS.items() if key in _names_of(f))
    yield from (_pass(s) for _, s in PASSES.items() if key in _both(s.name, s.title))
    yield from (_cost(c) for _, c in COSTS.items() if key in _both(c.name, c.title))
    if not any(key in _names_of(f) for _, f in FORMATS.items()):
        head = _head(key)
        yield from (_format(f) for _, f in FORMATS.items() if head and head == _head(_label(f)))


def _both(name: str, title: str) -> tuple[str, str]:
    return name.casefold().replace("_", " "), title.casefold()


def _names_of(fmt: type[Format]) -> set[str]:
    return {n.casefold().replace("_", " ") for n in (fmt.name, fmt.title, *fmt.aliases, *fmt.presets)}


def _label(fmt: type[Format]) -> str:
    """The label of a format at its defaults; a plug-in's may refuse to be made without arguments."""
    try:
        return fmt().label.casefold()
    except TypeError:
        return ""


def _head(label: str) -> str:
    """What the label of a format begins with, without its numbers: `mxint4/32` and `mxint8/16` are of one format."""
    match = re.match(r"[^\W\d]+|[^\w\s]+|0 ±α", label)
    head = match.group() if match else ""
    return "" if len(label) > 24 or (label != head and not re.search(r"\d|channel|fitted|×", label)) else head


def _sentence(text: str) -> str:
    text = " ".join(text.split()).strip()
    text = text[:1].upper() + text[1:] if re.match(r"[a-z]{2}|a ", text) else text  # no letter of a formula
    return text if not text or text.endswith((".", "?", "!")) else f"{text}."


def first_paragraph(doc: str | None) -> str:
    """The first paragraph of a docstring as a sentence."""
    return _sentence((inspect.cleandoc(doc or "")).split("\n\n")[0])


def _format(fmt: type[Format]) -> Explanation:
    page = "reference/formats.md" if FORMATS.is_own(fmt.name) else ""
    return Explanation(
        tr(fmt.title), "format", tr(first_paragraph(inspect.getdoc(fmt))), fmt.formula, fmt.source, page, fmt.name
    )


def _pass(spec: PassSpec) -> Explanation:
    page = "reference/passes.md" if PASSES.is_own(spec.name) else ""
    return Explanation(
        tr(spec.title), "pass", tr(first_paragraph(spec.doc)) or tr(spec.title), page=page, section=spec.name
    )


def _cost(cost: Cost) -> Explanation:
    page = "reference/costs.md" if COSTS.is_own(cost.name) else ""
    unit = tr(" Unit: {}.", tr(cost.unit)) if cost.unit else ""
    better = tr("Lower is better.") if cost.better == "low" else tr("Higher is better.")
    return Explanation(tr(cost.title), "cost", f"{_sentence(tr(cost.about))}{unit} {better}", page=page)
