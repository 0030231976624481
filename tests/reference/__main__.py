"""`python -m tests.reference` writes the generated pages and stubs; `--check` only says which are stale."""

from __future__ import annotations

import sys

from tests.reference.pages import ROOT, generated, stale


def main(words: list[str]) -> int:
    """The exit code: 1 where a page is stale and only asked about."""
    wrong = stale()
    if "--check" not in words:
        for path, text in generated().items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for path in wrong:
        print(f"{path.relative_to(ROOT)} {'is stale' if '--check' in words else 'written'}")
    return 1 if wrong and "--check" in words else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
