"""What an export may be told besides its form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def _silent(done: int, total: int, text: str) -> None:
    """No progress wanted."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`leave_float`: leave out, and tell, the formats of activations that the form has no equal of.

    `progress`: hears how far it is, and may stop it (JobError).
    """

    leave_float: bool = False
    progress: Callable[[int, int, str], None] = _silent
