"""The vocabulary of a GGUF file, where the tokenizer is one that llama.cpp has: byte-level BPE of a known pattern.

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

if TYPE_CHECKING:
    from espalier.model.document.project import Project

NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5
DEFAULT_END = 11  # the token of a byte-level vocabulary that llama.cpp takes as the end where a file names none
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
HINT = "Export it as compressed-tensors, or write token ids alone: --ids-only."
NFC = (
    "The tokenizer brings texts to Unicode's form NFC, and llama.cpp does not: texts in another form get other tokens."
)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Tokens by id with their kinds, merges by rank, and ids of special tokens by name; without tokens: ids alone.

    `ends`: whether a token is put (before, after) a text. `template`: of chats.
    """

    pattern: str = ""
    tokens: tuple[str, ...] = ()
    kinds: tuple[int, ...] = ()
    merges: tuple[str, ...] = ()
    special: tuple[tuple[str, int], ...] = ()
    ends: tuple[bool, bool] = (False, False)
    template: str = ""
    notes: tuple[str, ...] = ()

    def write(self, writer: Any) -> None:
        """Add it to a gguf.GGUFWriter."""
        if not self.tokens:
            writer.add_tokenizer_model("none")
            return
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(self.pattern)
        writer.add_token_list(self.tokens)
        writer.add_token_types(self.kinds)
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
            raise _refused(f"it is {type(tokenizer).__name__}")
        data: dict[str, Any] = parse_json(backend.to_str())
        pattern, notes = _pattern(data), (*_normalised(data), *_lacking(data))
        made = replace(_tokens(data, int(config.vocab_size)), pattern=pattern, notes=notes)
        return _with_special(made, tokenizer, config)


def _loaded(source: str) -> Any:
    try:
        return load_tokenizer(source)
    except DataError as error:
        raise ExportError(error.message, "Correct it, or write token ids alone: --ids-only.") from error


def _refused(why: str) -> ExportError:
    return ExportError(f"llama.cpp does not have the model's tokenizer: {why}.", HINT)


# -- how texts are split


def _pattern(data: Mapping[str, Any]) -> str:
    """The name of the pattern; raises ExportError for a tokenizer that has another, or is no byte-level BPE."""
    model = data["model"]
    before = data.get("pre_tokenizer") or {}
    parts: list[dict[str, Any]] = before.get("pretokenizers", [before])
    if model.get("type") != "BPE" or not parts or parts[-1].get("type") != "ByteLevel":
        raise _refused(f"byte-level BPE is written, and it is another {model.get('type')}")
    if model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"):
        raise _refused("tokens within a word have a prefix or suffix")
    if parts[-1].get("add_prefix_space"):
        raise _refused("it puts a space before a text")
    whole = bool(model.get("ignore_merges"))
    name = PATTERNS.get((_split(parts), whole))
    if name is None:
        names = ", ".join(dict.fromkeys(PATTERNS.values()))
        raise _refused(f"texts are split by none of the patterns {names}")
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
        raise _refused(f"it changes texts ({', '.join(sorted(kinds))}) before it splits them")
    return (NFC,) if kinds else ()


def _lacking(data: Mapping[str, Any]) -> list[str]:
    """A note where bytes have no token: tokenizers drops them before merges, llama.cpp after."""
    from tokenizers.pre_tokenizers import ByteLevel

    count = len(set(ByteLevel.alphabet()) - set(data["model"]["vocab"]))
    return [f"The vocabulary lacks {count} of 256 bytes: texts with them can get other tokens."] if count else []


# -- tokens


def _tokens(data: Mapping[str, Any], size: int) -> Vocabulary:
    tokens, kinds = [""] * size, [UNUSED] * size
    for text, number in data["model"]["vocab"].items():
        if number < size:
            tokens[number], kinds[number] = str(text), NORMAL
    for added in data.get("added_tokens", ()):
        if added["id"] < size:
            tokens[added["id"]] = str(added["content"])
            kinds[added["id"]] = CONTROL if added.get("special") else USER_DEFINED
    taken = set(tokens)
    for number, text in enumerate(tokens):
        if not text:  # llama.cpp ends its process where two tokens have one text
            tokens[number] = next(t for t in _names(number) if t not in taken)
    merges = tuple(m if isinstance(m, str) else " ".join(m) for m in data["model"]["merges"])
    return Vocabulary(tokens=tuple(tokens), kinds=tuple(kinds), merges=merges)


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
        raise _refused("it puts several tokens before or after a text")
    ids = {name: _first(getattr(config, f"{name}_token_id", None)) for name in ("bos", "eos", "pad")}
    ids |= {name: around[0] for name, around in (("bos", before), ("eos", after)) if around}
    special = tuple((name, i) for name, i in ids.items() if i is not None and 0 <= i < len(made.tokens))
    notes = list(made.notes)
    if "eos" not in dict(special) and len(made.tokens) > DEFAULT_END:
        notes.append(
            f"The model names no end token: llama.cpp takes token {DEFAULT_END} ({made.tokens[DEFAULT_END]}) as one."
        )
    template = getattr(tokenizer, "chat_template", None)
    return replace(made, special=special, ends=(bool(before), bool(after)), notes=tuple(notes),
                   template=template if isinstance(template, str) else "")  # fmt: skip


def _first(number: Any) -> int | None:
    number = number[0] if isinstance(number, list) and number else number
    return number if isinstance(number, int) else None
