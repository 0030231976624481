"""`python -m tests.texts espalier_de.ts` writes all texts for Qt Linguist; translations in the file are kept."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.texts.extract import texts
from tests.texts.linguist import translations, write_ts


def main(words: list[str]) -> int:
    """Write or update the file; returns the exit code."""
    if len(words) != 1 or not words[0].endswith(".ts"):
        print(__doc__, file=sys.stderr)
        return 2
    path = Path(words[0])
    old = translations(path) if path.exists() else {}
    found = texts()
    write_ts(path, found.values(), path.stem.partition("_")[2], lambda t: old.get((t.text, t.plural)))
    done = sum(key in old for key in found)
    print(f"{path}: {len(found)} texts, {done} translated, {len(old.keys() - found.keys())} dropped")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
