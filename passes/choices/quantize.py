"""Options of quantisation: which format each port of which nodes takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from espalier.model.errors import OptionsError, nearest
from espalier.model.formats.base import Format
from espalier.passes.select import Select

PORTS = ("data_in", "weight", "bias", "data_out")


@dataclass(frozen=True, slots=True)
class Rule:
    """The formats of the selected nodes' ports; None sets a port back to float. Ports not named stay.

    `gradient`: in training, the gradient passes inside the format's range only, or everywhere.
    """

    select: Select
    formats: dict[str, Format | None]
    gradient: Literal["range", "identity"] = field(
        default="range", metadata={"help": "gradient in training: only inside the range, or everywhere"}
    )

    def __post_init__(self) -> None:
        for port in self.formats:
            if port not in PORTS:
                raise OptionsError(f"formats.{port} is not a port.", nearest(port, PORTS))


@dataclass(frozen=True, slots=True)
class QuantizeOptions:
    """Rules in order; where two name the same port of a node, the later one holds."""

    rules: tuple[Rule, ...] = field(default=(), metadata={"help": "which nodes get which formats"})
