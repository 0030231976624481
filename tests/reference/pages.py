"""All generated pages by their path below the guide, and which of them are stale."""

from __future__ import annotations

import re
from pathlib import Path

from tests.reference import from_code
from tests.reference.markdown import page, table
from tests.reference.measured import measured
from tests.reference.stubs import STUB, stub

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "resources" / "guide"
REFERENCES = {
    "passes": ("Passes", from_code.passes),
    "formats": ("Formats", from_code.formats),
    "costs": ("Costs", from_code.costs),
    "hardware-operations": ("Hardware operations", from_code.hardware),
    "commands": ("Commands", from_code.command_pages),
    "kernels": ("Kernels", from_code.kernels),
}
STATUS = re.compile(r"^Status: (.+)\.$", re.M)


def decisions() -> str:
    """The list of the decision records, by number."""
    rows: list[tuple[str, str, str]] = []
    for file in sorted((GUIDE / "decisions").glob("[0-9]*.md")):
        text = file.read_text(encoding="utf-8")
        title, status = text.partition("\n")[0].removeprefix("# "), STATUS.search(text)
        assert status, f"{file.name} has no line 'Status: …'"
        rows.append((file.name[:3], f"[{title}]({file.name})", status.group(1)))
    about = (
        "Each record has a number, the context, the decision, its consequence and its status. A new decision gets "
        "the next number; one that no longer holds stays, with the number of the record that replaces it."
    )
    return page("Decisions", about, table(("number", "decision", "status"), rows))


def generated() -> dict[Path, str]:
    """Path → text."""
    links = "\n".join(f"- [{title}]({name}.md)" for name, (title, _) in REFERENCES.items())
    made = {f"reference/{name}.md": write() for name, (_, write) in REFERENCES.items()}
    made["reference/README.md"] = page("References", "Lists of what the program has, from its own tables.", links)
    made["decisions/README.md"] = decisions()
    made["measured.md"] = measured()
    return {GUIDE / path: text for path, text in made.items()} | {STUB: stub()}


def stale() -> list[Path]:
    """The files that differ from what the code says."""
    return [path for path, text in generated().items()
            if not path.is_file() or path.read_text(encoding="utf-8") != text]  # fmt: skip
