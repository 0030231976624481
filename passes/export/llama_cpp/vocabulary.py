"""The vocabulary of a GGUF file, where the tokenizer is one that llama.cpp has: byte-level BPE of a known pattern, or
SentencePiece's BPE.

Keys and kinds of tokens: docs/gguf.md of ggml; names of the patterns: llama.cpp, src/llama-vocab.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.borders import parse_json, reading
from espalier.model.data.tokens import load_tokenizer
from espalier.model.errors import DataError, ExportError
from espalier.passes.export.llama_cpp.pieces import BYTES, is_pieces, merge_scores, merges_of, spaces_of
from espalier.passes.export.llama_cpp.refusal import refused

if TYPE_CHECKING:
    from espalier.model.document.project import Project

NORMAL, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 3, 4, 5, 6
BYTE_LEVEL, PIECES = "gpt2", "llama"  # names of the kinds of vocabularies
DEFAULT_END = {BYTE_LEVEL: 11, PIECES: 2}  # the token that llama.cpp takes as the end where a file names none
_LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_TRIPLES, _SINGLES = f"{_LETTERS}\\p{{N}}{{1,3}}{_REST}", f"{_LETTERS}\\p{{N}}{_REST}"
_GPT2, _DIGITS = "ByteLevel", "Digits, ByteLevel"  # patterns of tokenizers' own
# (pattern that splits a text before its bytes are merged, whether whole words come first) → name in llama.cpp
PATTERNS = {
    (_GPT2, False): "gpt-2",
    (_DIGITS, False): "smollm",
    (_TRIPLES, True): "llama-bpe",
    (_TRIPLES, False): "dbrx",
    (_SINGLES, False): "qwen2",
}
PROGRAMS = "llama.cpp's programs end with an error; its library takes token ids"
NFC = (
    "The tokenizer brings texts to Unicode's form NFC, and llama.cpp does not: texts in another form get other tokens."
)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Tokens by id with their kinds, merges by rank, and ids of special tokens by name; without tokens: ids alone.

    `model`: BYTE_LEVEL, or PIECES with scores in place of merges. `space`: whether a space is put before a text.
    `ends`: whether a token is put (before, after) a text. `template`: of chats.
    """

    model: str = BYTE_LEVEL
    pattern: str = ""
    tokens: tuple[str, ...] = ()
    kinds: tuple[int, ...] = ()
    merges: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    space: bool = False
    special: tuple[tuple[str, int], ...] = ()
    ends: tuple[bool, bool] = (False, False)
    template: str = ""
    notes: tuple[str, ...] = ()

    def write(self, writer: Any) -> None:
        """Add it to a gguf.GGUFWriter."""
        if not self.tokens:
            writer.add_tokenizer_model("none")
            return
        writer.add_tokenizer_model(self.model)
        writer.add_tokenizer_pre(self.pattern)
        writer.add_token_list(self.tokens)
        writer.add_token_types(self.kinds)
        if self.model == PIECES:
            writer.add_token_scores(self.scores)
            writer.add_add_space_prefix(self.space)
        else:
            writer.add_token_merges(self.merges)
        for name, number in self.special:
            getattr(writer, f"add_{name}_token_id")(number)
        writer.add_add_bos_token(self.ends[0])
        writer.add_add_eos_token(self.ends[1])
        if self.template:
            writer.add_chat_template(self.template)


def vocabulary_of(project: Project, config: Any, *, ids_only: bool = False) -> Vocabulary:
    """The vocabulary of a model's tokenizer; raises ExportError for one that llama.cpp does not have."""
    source = project.source.tokenizer
    if ids_only or not source:
        why = "as asked" if ids_only else "as the model has no tokenizer"
        return Vocabulary(notes=(f"The file has no vocabulary, {why}: {PROGRAMS}.",))
    with reading(Path(source).name, ExportError, "holds no readable tokenizer", "Correct it, or move it away."):
        tokenizer = _loaded(source)
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise refused(f"it is {type(tokenizer).__name__}")
        data: dict[str, Any] = parse_json(backend.to_str())
        size = int(config.vocab_size)
        made = _pieces(data, size) if is_pieces(data) else _byte_level(data, size)
        return _with_special(replace(made, notes=(*made.notes, *_stripped(data))), tokenizer, config)


def _loaded(source: str) -> Any:
    try:
        return load_tokenizer(source)
    except DataError as error:
        raise ExportError(error.message, "Correct it, or write token ids alone: --ids-only.") from error


# -- how texts are split


def _pattern(data: Mapping[str, Any]) -> str:
    """The name of the pattern; raises ExportError for a tokenizer that has another, or is no byte-level BPE."""
    model = data["model"]
    before = data.get("pre_tokenizer") or {}
    parts: list[dict[str, Any]] = before.get("pretokenizers", [before])
    if model.get("type") != "BPE" or not parts or parts[-1].get("type") != "ByteLevel":
        raise refused(f"byte-level BPE and BPE with byte fallback are written, and it is another {model.get('type')}")
    if model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"):
        raise refused("tokens within a word have a prefix or suffix")
    if parts[-1].get("add_prefix_space"):
        raise refused("it puts a space before a text")
    whole = bool(model.get("ignore_merges"))
    name = PATTERNS.get((_split(parts), whole))
    if name is None:
        names = ", ".join(dict.fromkeys(PATTERNS.values()))
        raise refused(f"texts are split by none of the patterns {names}")
    return name


def _split(parts: list[dict[str, Any]]) -> str:
    """The pattern of the steps that split a text; empty for steps without a name."""
    own = bool(parts[-1].get("use_regex", True))
    match parts[:-1]:
        case [] if own:
            return _GPT2
        case [{"type": "Digits", "individual_digits": True}] if own:
            return _DIGITS
        case [{"type": "Split", "pattern": {"Regex": str(regex)}} as split] if not own:
            kept = split.get("behavior"), bool(split.get("invert"))
            return regex if kept in (("Isolated", False), ("Removed", True)) else ""
        case _:
            return ""


def _normalised(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Notes on what happens to a text before it is split; raises ExportError for what changes more than its form."""
    found: dict[str, Any] | None = data.get("normalizer")
    steps: list[dict[str, Any]] = found.get("normalizers", [found]) if found else []
    kinds = {str(step.get("type")) for step in steps}
    if kinds - {"NFC"}:
        raise refused(f"it changes texts ({', '.join(sorted(kinds))}) before it splits them")
    return (NFC,) if kinds else ()


def _lacking(data: Mapping[str, Any]) -> list[str]:
    """A note where bytes have no token: tokenizers drops them before merges, llama.cpp after."""
    from tokenizers.pre_tokenizers import ByteLevel

    count = len(set(ByteLevel.alphabet()) - set(data["model"]["vocab"]))
    return [f"The vocabulary lacks {count} of 256 bytes: texts with them can get other tokens."] if count else []


def _stripped(data: Mapping[str, Any]) -> list[str]:
    """A note on added tokens that take spaces beside them, or stand alone only: llama.cpp does not know of either."""
    names = [t["content"] for t in data.get("added_tokens", ()) if t["lstrip"] or t["rstrip"] or t["single_word"]]
    return [f"The tokenizer finds {names[0]} by the text beside it, llama.cpp does not: texts with it can get other "
            "tokens."] if names else []  # fmt: skip


# -- tokens


def _byte_level(data: Mapping[str, Any], size: int) -> Vocabulary:
    pattern, notes = _pattern(data), (*_normalised(data), *_lacking(data))
    tokens, kinds, _ = _tokens(data, size)
    taken = set(tokens)
    filled = tuple(t or next(n for n in _names(i) if n not in taken) for i, t in enumerate(tokens))
    merges = tuple(m if isinstance(m, str) else " ".join(m) for m in data["model"]["merges"])
    return Vocabulary(BYTE_LEVEL, pattern, filled, tuple(kinds), merges, notes=notes)


def _pieces(data: Mapping[str, Any], size: int) -> Vocabulary:
    spaces, merges = spaces_of(data), merges_of(data)
    tokens, kinds, added = _tokens(data, size)
    taken = set(tokens)
    filled = tuple(t or next(n for n in _names(i) if n not in taken and len(merges.symbols(n)[0]) > 2)
                   for i, t in enumerate(tokens))  # fmt: skip
    kinds = [BYTE if text in BYTES else kind for text, kind in zip(filled, kinds, strict=True)]
    # Added tokens are taken out of a text before anything is merged.
    scores = merge_scores(merges, (t for t in filled if t not in added), words=spaces.words)
    numbers = tuple(scores.get(text, 0.0) for text in filled)
    return Vocabulary(PIECES, "default", filled, tuple(kinds), scores=numbers, space=spaces.before, notes=spaces.notes)


def _tokens(data: Mapping[str, Any], size: int) -> tuple[list[str], list[int], set[str]]:
    """(tokens by id, empty where there is none, as llama.cpp ends its process where two have one text; their kinds;
    added tokens).
    """
    tokens, kinds, names = [""] * size, [UNUSED] * size, set[str]()
    for text, number in data["model"]["vocab"].items():
        if number < size:
            tokens[number], kinds[number] = str(text), NORMAL
    for added in data.get("added_tokens", ()):
        if added["id"] < size:
            names.add(str(added["content"]))
            tokens[added["id"]] = str(added["content"])
            kinds[added["id"]] = CONTROL if added.get("special") else USER_DEFINED
    return tokens, kinds, names


def _names(number: int) -> Any:
    name = f"[PAD{number}]"
    while True:
        yield name
        name = f"[{name}]"


def _with_special(made: Vocabulary, tokenizer: Any, config: Any) -> Vocabulary:
    """With ids of special tokens: those that the tokenizer puts around a text, or else those of the configuration."""
    bare = [int(i) for i in tokenizer("a", add_special_tokens=False)["input_ids"]]
    whole = [int(i) for i in tokenizer("a")["input_ids"]]
    at = next(i for i in range(len(whole)) if whole[i : i + len(bare)] == bare)
    before, after = whole[:at], whole[at + len(bare) :]
    if len(before) > 1 or len(after) > 1:
        raise refused("it puts several tokens before or after a text")
    ids = {name: _first(getattr(config, f"{name}_token_id", None)) for name in ("bos", "eos", "pad")}
    ids |= {name: around[0] for name, around in (("bos", before), ("eos", after)) if around}
    special = tuple((name, i) for name, i in ids.items() if i is not None and 0 <= i < len(made.tokens))
    notes, end = list(made.notes), DEFAULT_END[made.model]
    if "eos" not in dict(special) and len(made.tokens) > end:
        notes.append(f"The model names no end token: llama.cpp takes token {end} ({made.tokens[end]}) as one.")
    template = getattr(tokenizer, "chat_template", None)
    return replace(made, special=special, ends=(bool(before), bool(after)), notes=tuple(notes),
                   template=template if isinstance(template, str) else "")  # fmt: skip


def _first(number: Any) -> int | None:
    number = number[0] if isinstance(number, list) and number else number
    return number if isinstance(number, int) else None
