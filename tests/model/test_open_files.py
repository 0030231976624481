"""Open project files replaced by other programs, and a weight store shared by several threads."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from espalier.model.document.project import keys_of, load_project, save_project
from espalier.model.store.weights import Location, Tensor, WeightStore, read_header, write
from tests.model.project_cases import make


def written(path: Path, *seeds: int) -> dict[str, Location]:
    tensors = [Tensor(np.random.default_rng(s).standard_normal(4).astype(np.float32), "float32") for s in seeds]
    fresh = path.with_name("fresh")
    with fresh.open("wb") as handle:
        write(handle, {t.key(): t for t in tensors})
    fresh.replace(path)
    return read_header(path)


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("held", [True, False])
def test_a_save_whose_file_was_replaced_before_anybody_heard_of_it(tmp_path: Path, held: bool) -> None:
    """A thread writes the project; until the window hears of it, a sync client may have put another file there."""
    path = tmp_path / "p.espalier"
    save_project(*make(), path, everything=True)
    store = WeightStore(tmp_path / "work")
    project = load_project(path, store)
    view = store.view()
    saved = save_project(project, view, path, everything=True)
    data = bytearray(path.read_bytes())
    for place in saved.places.values():
        data[place.offset : place.offset + place.size] = bytes(place.size)
    other = tmp_path / "other"
    other.write_bytes(data)
    os.replace(other, path)
    store.moved(path, saved.places, by=view if held else None)
    for key in keys_of(*project.graphs):
        assert store.get(key).key() == key
    in_saved = {store.places()[k] == p for k, p in saved.places.items()}
    assert in_saved == {held}, "what nobody holds is read where it was"


def test_one_thread_adds_while_another_does(tmp_path: Path, hasty: None) -> None:
    """The thread that sends jobs writes what lay in replaced files; the window's adds what a worker found."""
    path = tmp_path / "a.safetensors"
    store = WeightStore(tmp_path / "work")
    store.add(written(path, *range(200)))
    faults, ended = list[BaseException](), threading.Event()

    def replaces() -> None:
        while not ended.is_set():
            try:
                store.add(written(path, *range(200)))
            except Exception as error:  # noqa: BLE001
                faults.append(error)

    thread = threading.Thread(target=replaces)
    thread.start()
    place = next(iter(store.places().values()))
    for number in range(8000):
        store.add({f"{number:032x}": place})
    ended.set()
    thread.join()
    assert not faults and len(store.places()) == 8200


def test_a_tensor_that_moves_while_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A preview's thread knows its old place when the window hears that the project was saved."""
    path = tmp_path / "p.safetensors"
    (key,) = written(path, 1)
    store = WeightStore(tmp_path / "work")
    store.add(read_header(path))
    look, once = store._checked, [True]  # pyright: ignore[reportPrivateUsage]

    def late(*args: Any) -> Tensor:
        if once.pop() if once else False:
            store.moved(path, written(path, 2, 3, 1))
        return look(*args)

    monkeypatch.setattr(store, "_checked", late)
    assert store.get(key).key() == key and not once
