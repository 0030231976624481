"""The pages of the guide as values: their order, their sections, and a search over all of them. Free of Qt.

The front page of the guide is its table of contents: its headings name the parts, its links the pages in order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3] / "resources" / "guide"
FRONT = "README.md"
LISTS = ("reference/README.md", "decisions/README.md")  # pages whose own links are further pages below them
BEHIND: dict[str, float] = dict(zip(LISTS, (0.5, 0.1), strict=True))  # ranked last in a search
HEADING = re.compile(r"^(#{1,4}) +(.+?) *$")
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
FENCE = "```"
SNIPPET, MOST = 110, 60  # largest length of a result, number of results


@dataclass(frozen=True, slots=True)
class Page:
    """A page, by its path below the guide; `part`: its heading in the table of contents."""

    path: str
    title: str
    part: str
    under: str = ""  # the page that lists it, if not the front page

    def text(self, root: Path = ROOT) -> str:
        """The page as Markdown."""
        return (root / self.path).read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Hit:
    """A section with all words of a search; `heading` is empty for the text before the first one."""

    page: Page
    heading: str
    snippet: str
    rank: float


def slug(heading: str) -> str:
    """The anchor of a heading, as on GitHub."""
    text = re.sub(r"[^\w\- ]", "", plain(heading).casefold())
    return text.replace(" ", "-")


def plain(text: str) -> str:
    """Markdown as plain text, for a list."""
    text = re.sub(rf"!?{LINK.pattern}", r"\1", text)
    return re.sub(r"\s+", " ", re.sub(r"[*`|]|^[#>\-]+ |:?-{3,}:?", "", text, flags=re.M)).strip()


def lines_of(text: str) -> Iterator[tuple[str, bool]]:
    """(line, whether it is in a code block) of a text."""
    inside = False
    for line in text.splitlines():
        fence = line.lstrip().startswith(FENCE)
        yield line, inside or fence
        inside ^= fence


def headings(text: str) -> list[str]:
    """The headings of a page, the title first."""
    return [m.group(2) for line, code in lines_of(text) if not code and (m := HEADING.match(line))]


def links(text: str) -> list[tuple[str, str]]:
    """(words, target) of the links of a page."""
    return [pair for line, code in lines_of(text) if not code for pair in LINK.findall(line)]


@cache
def pages(root: Path = ROOT) -> tuple[Page, ...]:
    """All pages in the order of the contents, the front page first; listed pages follow their list."""
    text = (root / FRONT).read_text(encoding="utf-8")
    contents, part = [Page(FRONT, headings(text)[0], "")], ""
    for line, code in lines_of(text):
        if code:
            continue
        if heading := HEADING.match(line):
            part = heading.group(2)
        for title, target in LINK.findall(line) if line.startswith("- ") else ():
            if target.endswith(".md") and not any(p.path == target for p in contents):
                contents.append(Page(target, title, part))
                contents += _listed(root, target, part) if target in LISTS else []
    return tuple(contents)


def _listed(root: Path, path: str, part: str) -> list[Page]:
    folder = path.rpartition("/")[0]
    targets = dict((t, w) for w, t in links((root / path).read_text(encoding="utf-8")) if re.match(r"[\w-]+\.md$", t))
    return [Page(f"{folder}/{target}", title, part, path) for target, title in targets.items()]


def resolved(page: str, target: str) -> tuple[str, str]:
    """(path below the guide, section) of a link on a page; an empty path for links outside the guide."""
    path, _, section = target.partition("#")
    if not path:
        return page, section
    parts = [] if path.startswith("/") else page.split("/")[:-1]
    for part in path.split("/"):
        if part == "..":
            if not parts:
                return "", ""
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts), section


@cache
def _sections(root: Path) -> list[tuple[Page, str, str]]:
    """(page, heading, text) of all sections of all pages."""
    sections: list[tuple[Page, str, str]] = []
    for page in pages(root):
        heading, body = "", list[str]()
        for line, code in lines_of(page.text(root)):
            match = None if code else HEADING.match(line)
            if match and len(match.group(1)) > 1:
                sections.append((page, heading, "\n".join(body)))
                heading, body = plain(match.group(2)), []
            elif not match:
                body.append(line)
        sections.append((page, heading, "\n".join(body)))
    return sections


def search(query: str, root: Path = ROOT) -> list[Hit]:
    """The sections with all words of `query`, those with matching headings first."""
    terms = [w for w in query.casefold().split() if w]
    if not terms:
        return []
    hits = [hit for page, heading, text in _sections(root) if (hit := _hit(page, heading, text, terms))]
    return sorted(hits, key=lambda h: -h.rank)[:MOST]


def _hit(page: Page, heading: str, text: str, terms: list[str]) -> Hit | None:
    body, head, title = plain(text), heading.casefold(), page.title.casefold()
    folded = body.casefold()
    if not all(w in folded or w in head or (not heading and w in title) for w in terms):
        return None
    rank = sum(20 * (w in head) + 20 * (w in title and not heading) + 3 * (w in title) + min(folded.count(w), 5)
               for w in terms)  # fmt: skip
    rank *= BEHIND.get(page.under, 1.0)
    at = min((i for w in terms if (i := folded.find(w)) >= 0), default=0)
    begin = max(0, body.rfind(" ", 0, max(0, at - SNIPPET // 3)) + 1) if at > SNIPPET // 3 else 0
    cut = body[begin : begin + SNIPPET]
    return Hit(page, heading, ("… " if begin else "") + cut + (" …" if begin + SNIPPET < len(body) else ""), rank)
