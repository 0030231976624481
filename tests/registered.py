"""Passes that a test lends the registry, and that go with the test."""

from __future__ import annotations

from typing import Any

import pytest

from espalier.model.registry import PASSES


def lend_pass(monkeypatch: pytest.MonkeyPatch, spec: Any) -> None:
    """Register `spec` under its name until the test ends, in place of the pass that has it."""
    known = PASSES.get("prune")  # all of ours are there
    assert known is not None
    monkeypatch.setattr(PASSES, "_entries", dict(PASSES._entries))  # pyright: ignore[reportPrivateUsage]
    PASSES.remove(spec.name)
    PASSES.add(spec.name, spec, source="tests/registered.py")
