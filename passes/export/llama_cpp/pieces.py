"""SentencePiece's BPE with byte fallback as llama.cpp has it: pairs whose text is a token merge by its score.

llama.cpp: src/llama-vocab.cpp, llm_tokenizer_spm; merges by rank: github.com/huggingface/tokenizers, models/bpe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from espalier.passes.export.llama_cpp.refusal import refused

SPACE = "▁"
BYTES = frozenset(f"<0x{byte:02X}>" for byte in range(256))
LEADING = (
    "llama.cpp puts a space before every text, the tokenizer before none that begins with a space: such texts get "
    "other tokens."
)
WITHIN = (
    "llama.cpp puts a space after each special token in a text, the tokenizer does not: such texts get other tokens."
)


@dataclass(frozen=True, slots=True)
class Spaces:
    """What happens to spaces: whether one is put before a text, whether words are merged alone, and notes."""

    before: bool
    words: bool
    notes: tuple[str, ...] = ()


def is_pieces(data: Mapping[str, Any]) -> bool:
    """Whether a tokenizer of the package tokenizers is BPE that writes unknown characters as bytes."""
    return data["model"].get("type") == "BPE" and bool(data["model"].get("byte_fallback"))


def spaces_of(data: Mapping[str, Any]) -> Spaces:
    """How a tokenizer treats spaces; raises ExportError where llama.cpp cannot do the same."""
    steps, parts = _steps(data, "normalizer", "normalizers"), _steps(data, "pre_tokenizer", "pretokenizers")
    model = data["model"]
    if model.get("dropout"):
        raise refused("it merges at random (dropout)")
    if model.get("ignore_merges") or model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"):
        raise refused("words that are tokens are not merged, or tokens within a word have a prefix or suffix")
    match steps, parts:
        case [{"type": "Prepend", "prepend": "▁"}, replace], [] if _replaces(replace):
            return Spaces(before=True, words=False, notes=_normalised(data, before=True))
        case [replace], [] if _replaces(replace):
            return Spaces(before=False, words=False, notes=_normalised(data, before=False))
        case [], [{"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme} as part]:
            notes = {"never": (), "always": (LEADING,)}.get(scheme, (LEADING, WITHIN))
            return Spaces(before=scheme != "never", words=bool(part.get("split", True)), notes=notes)
        case _:
            kinds = ", ".join(str(step.get("type")) for step in (*steps, *parts)) or "no step"
            raise refused(
                f"before BPE with byte fallback, llama.cpp changes spaces alone, and the tokenizer has {kinds}"
            )


def _steps(data: Mapping[str, Any], name: str, parts: str) -> list[dict[str, Any]]:
    found: dict[str, Any] | None = data.get(name)
    return list(found.get(parts, [found])) if found else []


def _replaces(step: Mapping[str, Any]) -> bool:
    return step.get("type") == "Replace" and step.get("pattern") == {"String": " "} and step.get("content") == SPACE


def _normalised(data: Mapping[str, Any], *, before: bool) -> tuple[str, ...]:
    """A note on added tokens that are looked for where spaces are changed already; llama.cpp looks before that."""
    names = [t["content"] for t in data.get("added_tokens", ())
             if t.get("normalized") and (before or SPACE in t["content"] or " " in t["content"])]  # fmt: skip
    if not names:
        return ()
    return (f"The tokenizer looks for {_some(names)} after spaces are changed, llama.cpp before: texts with "
            f"{'it' if len(names) == 1 else 'them'} can get other tokens.",)  # fmt: skip


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more tokens" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}"


# -- scores


@dataclass(frozen=True, slots=True)
class Merges:
    """Ranks of the pairs that merge, and the characters that are tokens."""

    ranks: Mapping[tuple[str, str], int]
    characters: frozenset[str]

    def symbols(self, text: str) -> tuple[list[str], int | None]:
        """(what a text without other text around it is merged to, rank of the last merge).

        A character that is no token stays by itself: llama.cpp and tokenizers write its bytes afterwards.
        """
        parts, last = list(text), None
        known = [c in self.characters for c in parts]
        while True:
            pairs = ((self.ranks.get((parts[i], parts[i + 1])), i) for i in range(len(parts) - 1)
                     if known[i] and known[i + 1])  # fmt: skip
            found = min(((rank, i) for rank, i in pairs if rank is not None), default=None)
            if found is None:
                return parts, last
            last, i = found
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
            known[i : i + 2] = [True]


def merges_of(data: Mapping[str, Any]) -> Merges:
    """The merges of a tokenizer; raises ExportError where bytes have no token, or merge."""
    vocabulary: dict[str, int] = data["model"]["vocab"]
    lacking = len(BYTES - set(vocabulary))
    if lacking:
        raise refused(f"its vocabulary lacks {lacking} of 256 bytes, and llama.cpp's programs end at such a byte")
    ranks: dict[tuple[str, str], int] = {}
    for rank, merge in enumerate(data["model"]["merges"]):
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        ranks[left, right] = rank
    wrong = [pair for pair in ranks if BYTES & set(pair)]
    if wrong:
        raise refused(f"it merges bytes ({' '.join(wrong[0])})")
    return Merges(ranks, frozenset(t for t in vocabulary if len(t) == 1))


def merge_scores(merges: Merges, tokens: Iterable[str], *, words: bool) -> dict[str, float]:
    """The score of each token that merges make; raises ExportError where scores cannot say the merges.

    Two symbols that stand side by side, and whose text is a token, came about within this text alone. So the text by
    itself merges to the same two: one pair is before each token, whatever surrounds it. Its rank orders the tokens as
    the merges are ordered. Where that pair does not merge, llama.cpp would merge it. `words`: symbols of two words do
    not merge.
    """
    found: dict[str, float] = {}
    wrong: list[str] = []
    for token in tokens:
        if len(token) < 2:
            continue
        symbols, last = merges.symbols(token)
        if len(symbols) > 2:
            continue
        if len(symbols) == 2 or (words and SPACE in token[1:]):
            wrong.append(token)
        else:
            found[token] = -float(last or 0)
    if wrong:
        tokens_of = f"{wrong[0]!r}{f' and {len(wrong) - 1} more tokens' if wrong[1:] else ''}"
        raise refused(f"it leaves pairs apart that llama.cpp merges, those of {tokens_of}")
    return found
