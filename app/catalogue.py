"""Reads a compiled catalogue of Qt (`.qm`), so that a damaged file never reaches Qt. Free of Qt and of pickles.

The format is that of QTranslator: blocks of a tag and a length; the messages are a sequence of tagged fields.
"""

from __future__ import annotations

import struct
from pathlib import Path

from espalier.model.errors import FileError
from espalier.model.files import explained

MAGIC = bytes.fromhex("3cb86418caef9c95cd211cbf60a1bddd")
LARGEST = 16 << 20  # bytes of a file; ours has less than one million
HASHES, MESSAGES, CONTEXTS, NUMERUS, LANGUAGE = 0x42, 0x69, 0x2F, 0x88, 0xA7
END, TRANSLATION, OBSOLETE, SOURCE, CONTEXT, COMMENT = 1, 3, 5, 6, 7, 8  # of a message
NONE = 0xFFFFFFFF  # the length of a translation that is missing

Catalogue = dict[str, tuple[str, ...]]


def read_catalogue(path: Path, context: str) -> Catalogue:
    """The English texts of one context → their translations, several for plural forms.

    Raises FileError if the file cannot be read, is damaged, or holds no text of the context: one of another program,
    or one that `lrelease -compress` has stripped of the English texts.
    """
    with explained(path):
        if path.stat().st_size > LARGEST:
            raise FileError(f"{path.name} is too large for a catalogue of texts.", "Choose another language.")
        data = path.read_bytes()
    try:
        blocks = _blocks(data)
        messages = blocks.get(MESSAGES, b"")
        offsets = [o for _, o in struct.iter_unpack(">II", blocks.get(HASHES, b""))]
        found = [_message(messages, o) for o in offsets]
    except (ValueError, struct.error) as error:
        hint = "Compile it again with lrelease, or choose another language."
        raise FileError(f"{path.name} is damaged, so that the window is in English.", hint) from error
    catalogue = {source: texts for where, source, texts in found if where == context and source}
    if not catalogue:
        hint = "Compile a catalogue of Espalier with lrelease, without -compress."
        raise FileError(f"{path.name} holds no text of Espalier, so that the window is in English.", hint)
    return catalogue


def _blocks(data: bytes) -> dict[int, bytes]:
    """Tag → content of each block. Raises ValueError."""
    if not data.startswith(MAGIC):
        raise ValueError("no catalogue")
    blocks: dict[int, bytes] = {}
    at = len(MAGIC)
    while at < len(data):
        tag, size = struct.unpack_from(">BI", data, at)
        at += 5
        if at + size > len(data):
            raise ValueError("a block is cut")
        blocks[tag] = data[at : at + size]
        at += size
    return blocks


def _message(data: bytes, at: int) -> tuple[str, str, tuple[str, ...]]:
    """The context, the English text and the translations of the message at an offset. Raises ValueError."""
    context = source = ""
    texts: list[str] = []
    while True:
        if at >= len(data):
            raise ValueError("a message is cut")
        tag = data[at]
        at += 1
        if tag == END:
            return context, source, tuple(texts)
        if tag == OBSOLETE:
            at += 4
            continue
        (size,) = struct.unpack_from(">I", data, at)
        at += 4
        if tag == TRANSLATION and size == NONE:
            continue
        if tag not in (TRANSLATION, SOURCE, CONTEXT, COMMENT) or at + size > len(data):
            raise ValueError("a message has no valid form")
        part = data[at : at + size]
        at += size
        if tag == TRANSLATION:
            texts.append(part.decode("utf-16-be"))
        elif tag == SOURCE:
            source = part.decode()
        elif tag == CONTEXT:
            context = part.decode()
