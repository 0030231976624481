"""What the guide's pages say to be run: blocks of code, and the commands in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from espalier.app.features.guide.pages import ROOT, pages


def blocks(path: str, kind: str) -> list[str]:
    """The blocks of code of a kind on a page."""
    return re.findall(rf"^```{kind}\n(.*?)^```", (ROOT / path).read_text(encoding="utf-8"), re.S | re.M)


def commands_of(path: str) -> Iterator[list[str]]:
    """The words of every call of the program in a page's shell blocks."""
    for block in blocks(path, "bash"):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["espalier"]:
                yield words[1:]


def written() -> list[str]:
    """The pages that people write, by path."""
    made = ("measured.md", "decisions/README.md")
    return [p.path for p in pages() if not p.path.startswith("reference/") and p.path not in made]
