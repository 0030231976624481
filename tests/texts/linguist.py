"""Files of Qt Linguist (`.ts`): written from texts, with the translations of an older file kept."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable
from pathlib import Path

from espalier.app.shell.language import CONTEXT
from tests.texts.extract import Text

HEAD = '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE TS>\n'
Translate = Callable[[Text], list[str] | None]  # a text → its translation, or its forms for numbers; None: none yet


def write_ts(path: Path, texts: Iterable[Text], language: str, translate: Translate) -> None:
    """Write the texts with their translations."""
    root = ET.Element("TS", version="2.1", language=language, sourcelanguage="en")
    context = ET.SubElement(root, "context")
    ET.SubElement(context, "name").text = CONTEXT
    for text in texts:
        message = ET.SubElement(context, "message", {"numerus": "yes"} if text.plural else {})
        ET.SubElement(message, "location", filename=text.place)
        ET.SubElement(message, "source").text = text.text
        forms = translate(text)
        part = ET.SubElement(message, "translation", {} if forms else {"type": "unfinished"})
        if text.plural:
            for form in forms or [""]:
                ET.SubElement(part, "numerusform").text = form
        else:
            part.text = forms[0] if forms else ""
    ET.indent(root, " ")
    path.write_text(HEAD + ET.tostring(root, encoding="unicode") + "\n", encoding="utf-8")


def translations(path: Path) -> dict[tuple[str, bool], list[str]]:
    """(text, plural) → the finished translations in a file."""
    found: dict[tuple[str, bool], list[str]] = {}
    for message in ET.parse(path).getroot().iter("message"):
        source, part = message.findtext("source") or "", message.find("translation")
        if part is None or part.get("type"):
            continue
        plural = message.get("numerus") == "yes"
        found[source, plural] = [f.text or "" for f in part.iter("numerusform")] if plural else [part.text or ""]
    return found
