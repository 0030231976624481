"""What tests of sources share: a small configuration, refusals, comparison with the original."""

from __future__ import annotations

from pathlib import Path

import pytest

from espalier.model.errors import SourceError
from espalier.model.opening import open_source
from espalier.model.sources.source import load_source
from espalier.model.torch.build import build
from espalier.model.trust import Origin
from tests.model.zoo import fresh, run, same


def refused(spec: str, *inputs: str) -> SourceError:
    with pytest.raises(SourceError) as caught:
        load_source(spec, inputs, origin=Origin.TYPED)
    assert caught.value.message and caught.value.hint
    return caught.value


def traced_like_original(spec: str, tmp_path: Path) -> None:
    """The rebuilt model gives what the loaded one gives, on fresh inputs of another batch size."""
    opened = open_source(spec, tmp_path / "work", origin=Origin.TYPED)
    assert opened.loaded is not None
    inputs = fresh(opened.loaded.example, 3, 7)
    built = build(opened.project.base, opened.store, opened.callables)
    assert same(run(built, inputs), run(opened.loaded.model, inputs))
