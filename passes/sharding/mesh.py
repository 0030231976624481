"""A mesh of devices and what its devices can do."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from espalier.model.errors import OptionsError
from espalier.passes.choices.shard import Shape, mesh_text

MAX_DEVICES = 65_536


@dataclass(frozen=True, slots=True)
class Mesh:
    """A mesh of one or two axes, such as (2, 4). Ranks count along the last axis first, as in torch's DeviceMesh."""

    shape: tuple[int, ...]

    @property
    def devices(self) -> int:
        """The number of devices."""
        return math.prod(self.shape)

    def __str__(self) -> str:
        return "x".join(map(str, self.shape))


@dataclass(frozen=True, slots=True)
class Device:
    """What a device does, and the link of each axis of the mesh.

    `flops`: of its products per second. `memory`: bytes. `bandwidth`: bytes per second of its memory. `latency`:
    seconds per message (alpha) and `rate`: bytes per second (1/beta), each per axis of the mesh.
    """

    name: str
    flops: float
    memory: float
    bandwidth: float
    latency: tuple[float, ...]
    rate: tuple[float, ...]
    source: str = ""  # where the figures are from
    warning: str = ""  # of what was measured and is ignored


def parse_mesh(given: Shape) -> Mesh:
    """A mesh from "4", "2x2", "1×2", 4 or (2, 2); raises OptionsError."""
    text = str(mesh_text(given))
    if not re.fullmatch(r"\s*\d{1,5}(\s*[x×,]\s*\d{1,5})?\s*", text):
        raise OptionsError(f"{text!r} is no mesh.", "Give the sizes of one or two axes, such as 4 or 2x2.")
    shape = tuple(int(n) for n in re.findall(r"\d+", text))
    if not 1 <= math.prod(shape) <= MAX_DEVICES:
        raise OptionsError(f"A mesh of {text} has {math.prod(shape)} devices.", f"Give 1 to {MAX_DEVICES}.")
    return Mesh(shape)
