"""Elements of an SVG document: rectangles, lines of text, the paths of edges."""

from __future__ import annotations

from html import escape

from espalier.app.figures.captions import text_width


def svg_box(rect: list[float] | tuple[float, ...], radius: float, fill: str, line: str = "") -> str:
    """A rectangle."""
    x, y, w, h = rect
    stroke = f' stroke="{line}"' if line else ""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="{radius:g}" fill="{fill}"{stroke}/>'


def svg_text(
    x: float, y: float, words: str, size: float, colour: str, bold: bool = False, anchor: str = "start"
) -> str:
    """One line of text."""
    weight = ' font-weight="600"' if bold else ""
    place = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{colour}"{weight}{place}>{clean(words)}</text>'


def clean(words: str) -> str:
    """Escape a text and remove characters that XML does not allow."""
    valid = (c for c in words if c >= " " and not "\ud800" <= c <= "\udfff" and c not in "\ufffe\uffff")
    return escape("".join(valid), quote=True)


def fitting(words: str, size: float, width: float) -> str:
    """The text, shortened with an ellipsis to about `width`."""
    if text_width(words, size) <= width:
        return words
    while words and text_width(words + "…", size) > width:
        words = words[:-1]
    return words + "…"


def route_data(points: list[list[float]], horizontal: bool) -> str:
    """The path data of a route, curved between layers."""
    x0, y0 = points[0]
    parts = [f"M{x0:.1f} {y0:.1f}"]
    for x, y in points[1:]:
        if x == x0 or y == y0:
            parts.append(f"L{x:.1f} {y:.1f}")
        elif horizontal:
            parts.append(f"C{(x0 + x) / 2:.1f} {y0:.1f} {(x0 + x) / 2:.1f} {y:.1f} {x:.1f} {y:.1f}")
        else:
            parts.append(f"C{x0:.1f} {(y0 + y) / 2:.1f} {x:.1f} {(y0 + y) / 2:.1f} {x:.1f} {y:.1f}")
        x0, y0 = x, y
    return "".join(parts)
