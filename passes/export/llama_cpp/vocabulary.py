"""The vocabulary of a GGUF file, where the tokenizer is one that llama.cpp has: byte-level BPE of a tokenizer.json.

Keys and kinds of tokens: docs/gguf.md of ggml; names of the patterns: llama.cpp, src/llama-vocab.cpp.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.borders import read_json, reading
from espalier.model.errors import ExportError

if TYPE_CHECKING:
    from espalier.model.document.project import Project

NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5
_LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# Pattern that splits a text before its bytes are merged → name in llama.cpp; "": that of GPT-2.
PATTERNS = {"": "gpt-2", f"{_LETTERS}\\p{{N}}{{1,3}}{_REST}": "llama-bpe", f"{_LETTERS}\\p{{N}}{_REST}": "qwen2"}
SPECIAL = ("bos", "eos", "pad")


def write_vocabulary(writer: Any, project: Project, config: Any) -> list[str]:
    """Write tokens, merges and special tokens; returns notes on what is missing."""
    folder = Path(project.source.tokenizer) if project.source.tokenizer else None
    if folder is None or not (folder / "tokenizer.json").is_file():
        writer.add_tokenizer_model("none")
        return ["The file has no vocabulary, as the model has no tokenizer.json: give llama.cpp token ids."]
    with reading(folder, ExportError, "holds no readable tokenizer.json", "Correct it, or move it away."):
        data = read_json(folder / "tokenizer.json")
        pattern = _pattern(data.get("pre_tokenizer") or {})
        if data["model"].get("type") != "BPE" or pattern is None:
            writer.add_tokenizer_model("none")
            kind = data["model"].get("type")
            return [f"The file has no vocabulary: byte-level BPE is written, and the tokenizer is another {kind}. "
                    "Give llama.cpp token ids."]  # fmt: skip
        if data.get("normalizer") or any(p.get("add_prefix_space") for p in _levels(data["pre_tokenizer"])):
            writer.add_tokenizer_model("none")
            return ["The file has no vocabulary: GGUF does not say how the tokenizer changes texts before it splits "
                    "them. Give llama.cpp token ids."]  # fmt: skip
        return _write(writer, data, pattern, config)


def _pattern(before: dict[str, Any]) -> str | None:
    """The pattern of a byte-level tokenizer, "" for its own; None for one that is not byte-level."""
    parts: list[dict[str, Any]] = before.get("pretokenizers", [before])
    levels = _levels(before)
    splits = [p for p in parts if p.get("type") == "Split"]
    if len(levels) != 1 or len(levels) + len(splits) != len(parts) or len(splits) > 1:
        return None
    if levels[0].get("use_regex", True):
        return "" if not splits else "other"
    return str(splits[0]["pattern"].get("Regex", "other")) if splits else "other"


def _levels(before: dict[str, Any]) -> list[dict[str, Any]]:
    return [p for p in before.get("pretokenizers", [before]) if p.get("type") == "ByteLevel"]


def _added(data: dict[str, Any]) -> tuple[str, str]:
    """The special tokens that the tokenizer puts before and after a text; empty for none."""
    after = data.get("post_processor") or {}
    for part in after.get("processors", [after]):
        if part.get("type") == "TemplateProcessing":
            names = [str(piece.get("SpecialToken", {}).get("id", "")) for piece in part.get("single", [{}])]
            return names[0], names[-1]
    return "", ""


def _write(writer: Any, data: dict[str, Any], pattern: str, config: Any) -> list[str]:
    size = int(config.vocab_size)
    tokens, kinds = [f"[PAD{i}]" for i in range(size)], [UNUSED] * size
    for text, number in data["model"]["vocab"].items():
        if number < size:
            tokens[number], kinds[number] = str(text), NORMAL
    for added in data.get("added_tokens", ()):
        if added["id"] < size:
            tokens[added["id"]] = str(added["content"])
            kinds[added["id"]] = CONTROL if added.get("special") else USER_DEFINED
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(PATTERNS.get(pattern, "default"))
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in data["model"]["merges"]])
    for name in SPECIAL:
        number = getattr(config, f"{name}_token_id", None)
        number = number[0] if isinstance(number, list) and number else number
        if isinstance(number, int) and 0 <= number < size:
            getattr(writer, f"add_{name}_token_id")(number)
    first, last = _added(data)
    writer.add_add_bos_token(bool(first))
    writer.add_add_eos_token(bool(last))
    if pattern in PATTERNS:
        return []
    return [
        "The pattern that splits texts is none of " + ", ".join(PATTERNS.values()) + ": llama.cpp takes its default."
    ]
