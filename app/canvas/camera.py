"""The camera: converts between canvas units and screen pixels."""

from __future__ import annotations

from dataclasses import dataclass

MIN_SCALE, MAX_SCALE = 0.0002, 4.0
Area = tuple[float, float, float, float]  # x, y, width, height


@dataclass(slots=True)
class Camera:
    """`x`, `y` is the canvas point at the top left of the view; `scale` is pixels per canvas unit."""

    scale: float = 1.0
    x: float = 0.0
    y: float = 0.0

    def to_canvas(self, px: float, py: float) -> tuple[float, float]:
        """The canvas point under a pixel."""
        return self.x + px / self.scale, self.y + py / self.scale

    def to_screen(self, x: float, y: float) -> tuple[float, float]:
        """The pixel over a canvas point."""
        return (x - self.x) * self.scale, (y - self.y) * self.scale

    def area(self, width: float, height: float, margin: float = 0.0) -> Area:
        """The part of the canvas in a view of this size, with a margin in pixels."""
        m = margin / self.scale
        return self.x - m, self.y - m, width / self.scale + 2 * m, height / self.scale + 2 * m

    def pan(self, dx: float, dy: float) -> None:
        """Move the view by pixels."""
        self.x -= dx / self.scale
        self.y -= dy / self.scale

    def zoom(self, factor: float, px: float, py: float) -> None:
        """Scale by `factor` around the pixel (px, py)."""
        x, y = self.to_canvas(px, py)
        self.scale = min(max(self.scale * factor, MIN_SCALE), MAX_SCALE)
        self.x, self.y = x - px / self.scale, y - py / self.scale

    def centre(self, x: float, y: float, width: float, height: float) -> None:
        """Centre a canvas point in a view of this size in pixels."""
        self.x, self.y = x - width / self.scale / 2, y - height / self.scale / 2

    def fit(self, area: Area, target: Area, max_scale: float = 1.0) -> None:
        """Fit `area` into `target`, in pixels of the view, centred and scaled by `max_scale` at most."""
        x, y, w, h = area
        left, top, width, height = target
        self.scale = min(max(min(width / max(w, 1.0), height / max(h, 1.0), max_scale), MIN_SCALE), MAX_SCALE)
        self.x = x + w / 2 - (left + width / 2) / self.scale
        self.y = y + h / 2 - (top + height / 2) / self.scale
