"""The design tokens: every colour, size and font of the window, once, for light and dark.

Free of Qt, so that the SVG writer and the plots' exports use the same values as the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from espalier.app.translation import translated

Stops = tuple[str, ...]

FONT_FAMILIES = ("system-ui", "Segoe UI", "SF Pro Text", "Noto Sans", "DejaVu Sans", "sans-serif")
BODY, TITLE, NODE_LABEL, SECONDARY, SMALL, SCORE, HEADING = 13.0, 16.0, 12.5, 10.5, 11.0, 14.0, 11.0
GRID, ROW, PAD, RADIUS, GROUP_RADIUS = 4, 23, 12, 6, 9
EDGE_WIDTH, SELECTION_WIDTH, PLOT_WIDTH = 1.2, 2.0, 1.8
ARROW = (7.0, 7.5)  # length and width of an arrowhead, pixels

# Okabe–Ito, distinguishable by the colour-blind; the keys are the categories of the ops table.
CATEGORIES: dict[str, str] = {
    "linear": "#0072B2",
    "matmul": "#009E73",
    "activation": "#D55E00",
    "norm": "#CC79A7",
    "embedding": "#7A5AA6",
    "add": "#B8860B",
    "shape": "#8A929E",
    "io": "#5B6472",
    "other": "#8A929E",
}
CATEGORY_TITLES: dict[str, str] = translated({"add": "arithmetic", "io": "input / output"})
SPARSITY = "#D55E00"
TAGS: dict[str, str] = {  # what people mark nodes with
    "red": "#D64545", "orange": "#E07B00", "yellow": "#C9A400", "green": "#2E9E5B", "blue": "#2F7FD6",
    "purple": "#8A5CC9", "grey": "#8A929E",
}  # fmt: skip
# Collectives on edges: no colours of nodes, and 3:1 against the canvas in both themes.
TRANSFERS: dict[str, str] = {
    "all-reduce": "#C2410C", "all-gather": "#0E7490", "reduce-scatter": "#4D7C0F", "all-to-all": "#C026D3",
}  # fmt: skip
TRANSFER_WIDTHS = (1.8, 6.0)  # of an edge with few bytes, and with the most
FRAME_GROUND, FRAME_TITLE = 0.10, 0.34  # shares of the colour in a frame and in its title
SEQUENTIAL: Stops = ("#440154", "#3B528B", "#21918C", "#5EC962", "#E0B400")
SEQUENTIAL_DARK: Stops = ("#7A56A8", "#5277BE", "#2BA597", "#6FD46F", "#FDE725")


@dataclass(frozen=True, slots=True)
class Palette:
    """The colours of one theme, as `#RRGGBB`."""

    name: str
    dark: bool
    background: str
    panel: str
    group: str
    node: str
    line: str
    control: str
    text: str
    muted: str
    accent: str
    accent_ground: str
    good: str
    bad: str
    chip: str
    edge: str
    bar: str
    on_accent: str

    def category(self, name: str) -> str:
        """The colour of an op's category."""
        return CATEGORIES.get(name, CATEGORIES["other"])

    def sequential(self, position: float) -> str:
        """The overlay colour at 0 … 1."""
        return mix(self.scale, position)

    @property
    def scale(self) -> Stops:
        """The stops of the sequential map, all visible on this theme's background."""
        return SEQUENTIAL_DARK if self.dark else SEQUENTIAL


LIGHT = Palette(
    name="light",
    dark=False,
    background="#F6F7F9",
    panel="#FFFFFF",
    group="#EEF1F5",
    node="#FFFFFF",
    line="#DDE1E6",
    control="#B3BBC6",
    text="#1C2127",
    muted="#5F6B7A",
    accent="#0A66C2",
    accent_ground="#E3EEFA",
    good="#1B7F4B",
    bad="#B3261E",
    chip="#EDF0F4",
    edge="#8C95A1",
    bar="#5B97D3",
    on_accent="#FFFFFF",
)
DARK = Palette(
    name="dark",
    dark=True,
    background="#16191D",
    panel="#1E2227",
    group="#1B1F24",
    node="#272C33",
    line="#343A42",
    control="#555F6B",
    text="#E6E9ED",
    muted="#9AA5B1",
    accent="#5AA9F5",
    accent_ground="#1D3550",
    good="#5FCF94",
    bad="#F2877F",
    chip="#2C323A",
    edge="#7C8794",
    bar="#4580B8",
    on_accent="#101418",
)
PALETTES: dict[str, Palette] = {p.name: p for p in (LIGHT, DARK)}


def rgb(colour: str) -> tuple[int, int, int]:
    """`#RRGGBB` as three bytes."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def mix(stops: Sequence[str], position: float) -> str:
    """The colour at `position` (0 … 1, clipped; NaN counts as 0) between evenly spaced stops."""
    scaled = min(max(position if position == position else 0.0, 0.0), 1.0) * (len(stops) - 1)
    index = min(int(scaled), len(stops) - 2)
    ends = zip(rgb(stops[index]), rgb(stops[index + 1]), strict=True)
    return "#{:02X}{:02X}{:02X}".format(*(round(a + (b - a) * (scaled - index)) for a, b in ends))


def css_fonts() -> str:
    """The font families as a CSS value."""
    return ", ".join(f"'{f}'" if " " in f else f for f in FONT_FAMILIES)


def frame_colours(colour: str, palette: Palette) -> tuple[str, str, str]:
    """The colours of the border, the ground and the title of a frame of a colour of TAGS."""
    own = TAGS.get(colour, TAGS["grey"])
    return own, mix((palette.background, own), FRAME_GROUND), mix((palette.background, own), FRAME_TITLE)
