"""Holds the two pins of pyproject.toml by what they are for: torch without gigabytes of CUDA,
and a PySide6 that leaves None's reference count alone on CPython 3.11.
"""

from __future__ import annotations

import sys
from importlib.metadata import version

import pytest
from PySide6.QtGui import QImage, QPainter

IMMORTAL_NONE = sys.version_info >= (3, 12)


@pytest.mark.skipif(IMMORTAL_NONE, reason="None is immortal from CPython 3.12 on")
def test_pyside_is_older_than_the_release_that_drops_none() -> None:
    """6.12.0 aborts on CPython 3.11; a fixed release may lift this once the next test passes with it."""
    assert tuple(int(part) for part in version("PySide6-Essentials").split(".")[:2]) < (6, 12)


def test_void_calls_keep_the_reference_count_of_none() -> None:
    """The fault loses one reference in each call: a thousand calls would show it a thousandfold."""
    image = QImage(8, 8, QImage.Format.Format_ARGB32)
    painter = QPainter(image)
    before = sys.getrefcount(None)
    for _ in range(1000):
        painter.setOpacity(0.5)
    after = sys.getrefcount(None)
    painter.end()
    assert after > before - 100


def test_torch_is_the_pinned_release() -> None:
    """The CPU wheel and the CUDA one differ only after the plus sign."""
    import torch

    assert torch.__version__.split("+")[0] == "2.13.0"


def test_the_hub_package_kernels_is_absent() -> None:
    """It would sit on the name of our own package, which transformers probes."""
    from importlib.metadata import distributions

    assert "kernels" not in {(d.metadata["Name"] or "").lower() for d in distributions()}
