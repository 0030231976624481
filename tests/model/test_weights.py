"""Tensors by content: keys, safetensors files of every dtype, lazy reading, places inside a zip, cut files."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.model.errors import ProjectError
from espalier.model.store.weights import CODES, Location, Tensor, WeightStore, chunks, read_header, tensor_key, write
from espalier.model.torch.tensors import to_numpy, to_torch
from espalier.model.zip_member import data_start, write_stored


def tensor(*shape: int, dtype: str = "float32", seed: int = 0) -> Tensor:
    return Tensor(np.random.default_rng(seed).normal(size=shape).astype(dtype), dtype)


def of_dtype(name: str) -> torch.Tensor:
    values = torch.tensor([[0.0, 1.0, -2.5], [3.0, 0.5, 7.0]])
    if name == "bool" or name.startswith("uint"):
        values = values.abs()
    return values.to(getattr(torch, name))


# -- keys


def test_keys_are_of_content() -> None:
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    key = tensor_key(a, "float32")
    assert len(key) == 32 and key == tensor_key(a.copy(), "float32")
    assert key == tensor_key(np.asfortranarray(a), "float32") == tensor_key(a[:, ::-1][:, ::-1], "float32")
    others = [a.reshape(3, 2), a.astype(np.float64), a + 1, a.view(np.int32), a.reshape(6)]
    assert len({key, *(tensor_key(o, str(o.dtype)) for o in others)}) == 6
    halves = a.astype(np.float16).view(np.uint16)
    assert tensor_key(halves, "bfloat16") != tensor_key(halves, "uint16")
    assert tensor_key(np.zeros((0, 3), np.float32), "float32") != tensor_key(np.zeros((3, 0), np.float32), "float32")
    assert tensor_key(np.float32(1).reshape(()), "float32") != tensor_key(np.ones(1, np.float32), "float32")


def test_keys_stay_what_they_are() -> None:
    """Project files name tensors by these: they may never change."""
    assert tensor_key(np.arange(4, dtype=np.float32), "float32") == "e413ee60a447036b65f5012572210831"
    assert tensor_key(np.zeros((0,), np.uint8), "uint8") == "1bbf3446a898805363e79a460bf6cbf9"


# -- files


@pytest.mark.parametrize("name", sorted(CODES))
def test_every_dtype_goes_through_a_file(name: str, tmp_path: Path) -> None:
    value = of_dtype(name)
    store = WeightStore(tmp_path)
    key = store.hold(to_numpy(value))
    store.flush("w")
    fresh = WeightStore(tmp_path)
    fresh.add(read_header(tmp_path / "w.safetensors"))
    back = to_torch(fresh.get(key))
    assert back.dtype == value.dtype and torch.equal(back.float() if name.startswith("float8") else back,
                                                     value.float() if name.startswith("float8") else value)  # fmt: skip
    assert fresh.get(key).key() == key and fresh.get(key).dtype == name
    if name not in ("complex64",):
        np.testing.assert_array_equal(fresh.get(key).float32(), value.float().numpy())


@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 3), (3, 0, 2), (5, 7)])
def test_any_shape_goes_through_a_file(shape: tuple[int, ...], tmp_path: Path) -> None:
    store = WeightStore(tmp_path)
    held = tensor(*shape)
    key = store.hold(held)
    place = store.flush("w")[key]
    assert place.shape == shape and store.get(key).array.shape == shape
    np.testing.assert_array_equal(store.get(key).array, held.array)
    assert to_torch(store.get(key)).shape == shape


def test_other_tools_read_our_files_and_we_read_theirs(tmp_path: Path) -> None:
    values = {n: of_dtype(n) for n in ("float32", "bfloat16", "int64", "bool", "float8_e4m3fn")} | {
        "e": torch.zeros(0, 2)
    }
    ours, theirs = tmp_path / "ours.safetensors", tmp_path / "theirs.safetensors"
    with ours.open("wb") as handle:
        write(handle, {n: to_numpy(v) for n, v in values.items()}, {"made": "here"})
    back = safetensors.torch.load_file(ours)
    assert set(back) == set(values) and all(back[n].dtype == v.dtype for n, v in values.items())
    assert all(torch.equal(back[n].float(), v.float()) for n, v in values.items())
    with safetensors.safe_open(ours, "pt") as opened:
        assert opened.metadata() == {"made": "here"}
    safetensors.torch.save_file(values, theirs, {"made": "there"})
    store = WeightStore(tmp_path)
    places, keys = read_header(theirs), {n: to_numpy(v).key() for n, v in values.items()}
    store.add({keys[n]: place for n, place in places.items()})
    assert all(torch.equal(to_torch(store.get(keys[n])).float(), v.float()) for n, v in values.items())


def test_damaged_values_are_told_when_they_are_read(tmp_path: Path) -> None:
    store = WeightStore(tmp_path)
    key = store.hold(tensor(100))
    (place,) = store.flush("w").values()
    data = bytearray(place.path.read_bytes())
    data[place.offset + 40] ^= 0xFF
    place.path.write_bytes(data)
    fresh = WeightStore(tmp_path)
    fresh.add({key: place})
    with pytest.raises(ProjectError, match="damaged"):
        fresh.get(key)


def test_what_this_store_wrote_is_not_hashed_again_and_replaced_files_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, hashed = WeightStore(tmp_path), list[int]()
    keys = [store.hold(tensor(n)) for n in (3, 5)]
    monkeypatch.setattr(Tensor, "key", lambda t: hashed.append(1) or tensor_key(t.array, t.dtype))
    places = store.flush("w")
    assert [store.get(k).shape for k in keys] == [(3,), (5,)] and not hashed
    path = places[keys[0]].path
    os.utime(path, ns=(0, 0))
    store.get(keys[0])
    store.get(keys[0])
    assert len(hashed) == 1
    store.moved(path, places)
    store.get(keys[0])
    assert len(hashed) == 1


@given(st.lists(st.tuples(st.sampled_from(sorted(CODES)), st.integers(0, 9)), max_size=8), st.integers(0, 500))
@settings(derandomize=True, max_examples=60)
def test_data_is_aligned_wherever_it_begins(members: list[tuple[str, int]], base: int) -> None:
    """The first tensor at a multiple of 64 bytes in the file, each at a multiple of its element's size."""
    tensors = {f"t{i}": to_numpy(torch.ones(n).to(getattr(torch, d))) for i, (d, n) in enumerate(members)}
    data = b"".join(chunks({k: t.kind for k, t in tensors.items()}, tensors.__getitem__, base=base))
    length = int.from_bytes(data[:8], "little")
    assert (base + 8 + length) % 64 == 0
    header = json.loads(data[8 : 8 + length])
    assert set(header) == set(tensors) and len(data) == 8 + length + sum(t.array.nbytes for t in tensors.values())
    for name, held in tensors.items():
        begin, end = header[name]["data_offsets"]
        assert begin % held.array.itemsize == 0
        assert data[8 + length + begin : 8 + length + end] == held.array.tobytes()


def test_tensors_in_a_zip_are_read_where_they_lie(tmp_path: Path) -> None:
    path = tmp_path / "p.zip"
    tensors = {"mask": tensor(3, dtype="uint8"), "a": tensor(5, 7), "b": tensor(2, dtype="float64")}
    kinds = {k: t.kind for k, t in tensors.items()}
    with path.open("wb") as raw, zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("before.json", json.dumps(["x"] * 1000))
        write_stored(archive, raw, "w.safetensors", lambda start: chunks(kinds, tensors.__getitem__, base=start))
        archive.writestr("after.json", "{}")
    with zipfile.ZipFile(path) as archive, path.open("rb") as raw:
        assert archive.testzip() is None
        start = data_start(raw, archive.getinfo("w.safetensors").header_offset)
        assert set(safetensors.numpy.load(archive.read("w.safetensors"))) == set(tensors)
    places = read_header(path, start)
    assert min(p.offset for p in places.values()) % 64 == 0
    store = WeightStore(tmp_path)
    store.add({tensors[n].key(): place for n, place in places.items()})
    for held in tensors.values():
        got = store.get(held.key())
        assert got.array.flags.aligned and got.array.dtype == held.array.dtype
        np.testing.assert_array_equal(got.array, held.array)


# -- the store


def test_equal_tensors_are_kept_once(tmp_path: Path) -> None:
    store = WeightStore(tmp_path)
    a = store.hold(tensor(100))
    assert store.hold(tensor(100)) == a and a in store and "nonsense" not in store
    b = store.hold(tensor(100, seed=1))
    places = store.flush("w")
    assert set(places) == {a, b} and store.hold(tensor(100)) == a
    assert store.flush("again") == {} and [f.name for f in tmp_path.iterdir()] == ["w.safetensors"]
    assert (tmp_path / "w.safetensors").stat().st_size < 800 + 400


def test_nothing_is_read_before_it_is_asked_for(tmp_path: Path) -> None:
    writer = WeightStore(tmp_path)
    key = writer.hold(tensor(10))
    places = writer.flush("w")
    (tmp_path / "w.safetensors").unlink()
    store = WeightStore(tmp_path)
    store.add(places)
    assert key in store and store.locate([key, "other"]) == places == store.places()
    with pytest.raises(ProjectError, match=r"w\.safetensors") as caught:
        store.get(key)
    assert caught.value.hint
    with pytest.raises(ProjectError, match="missing"):
        store.get("nowhere")


def test_only_files_can_be_told_to_another_process(tmp_path: Path) -> None:
    store = WeightStore(tmp_path)
    key = store.hold(tensor(3))
    assert store.locate([key]) == {} == store.places()
    assert set(store.flush("w")) == set(store.locate([key])) == {key}


def test_readers_may_write_without_being_seen(tmp_path: Path) -> None:
    store = WeightStore(tmp_path)
    mapped, held = store.hold(tensor(4)), None
    store.flush("w")
    held = store.hold(tensor(4, seed=1))
    read, other = store.reader(), store.reader()
    for key in (mapped, held):
        read(key).array[:] = 9
        assert store.get(key).key() == key == other(key).key()
    assert tensor_key(np.asarray(store.get(mapped).array), "float32") == mapped


def test_weights_of_equal_values_are_written_apart(tmp_path: Path) -> None:
    """As those of two fresh norms are, in memory and in a file."""
    store = WeightStore(tmp_path)
    key = store.hold(Tensor(np.ones(4, np.float32), "float32"))
    for _ in range(2):
        read = store.reader()
        one, other = read(key), read(key)
        one.array[0] = 5
        assert other.array.tolist() == [1, 1, 1, 1] and store.get(key).array.tolist() == [1, 1, 1, 1]
        store.flush("weights")


def test_adopting_finds_equal_values_in_files(tmp_path: Path) -> None:
    same, other = tensor(3), tensor(3, seed=5)
    file = tmp_path / "model.safetensors"
    with file.open("wb") as handle:
        write(handle, {"layer.weight": same, "unrelated": tensor(2)})
    store = WeightStore(tmp_path / "work")
    a, b = store.hold(same), store.hold(other)
    store.adopt(read_header(file).values())
    assert store.locate([a, b]) == {a: read_header(file)["layer.weight"]}
    assert store.get(a).key() == a and store.get(b) is other
    assert set(store.flush("w")) == {b}


def replace_file(path: Path, *tensors: Tensor) -> None:
    fresh = path.with_name("fresh")
    with fresh.open("wb") as handle:
        write(handle, {t.key(): t for t in tensors})
    fresh.replace(path)


def test_a_replaced_file_is_read_on(tmp_path: Path) -> None:
    """Another program's save, or our own, must not take away what undo can bring back."""
    path = tmp_path / "p.safetensors"
    old, new = tensor(4), tensor(4, seed=1)
    replace_file(path, old, new)
    store = WeightStore(tmp_path / "work")
    store.add(read_header(path))
    replace_file(path, tensor(50, seed=2), new)
    assert all(store.get(t.key()).key() == t.key() for t in (old, new))
    moved = read_header(path)
    store.moved(path, moved)
    assert store.locate([new.key()]) == {new.key(): moved[new.key()]}
    path.unlink()
    assert all(store.get(t.key()).key() == t.key() == store.view().reader()(t.key()).key() for t in (old, new))


def test_another_process_finds_tensors_of_files_that_are_gone(tmp_path: Path) -> None:
    path = tmp_path / "p.safetensors"
    old, new = tensor(4), tensor(4, seed=1)
    replace_file(path, old)
    store = WeightStore(tmp_path / "work")
    store.add(read_header(path))
    assert store.elsewhere([old.key()], "kept") == store.places() and not (tmp_path / "work").exists()
    replace_file(path, new)
    other = WeightStore(tmp_path / "other")
    other.add(store.elsewhere([old.key(), "unknown"], "kept"))
    assert other.get(old.key()).key() == old.key()
    assert [f.name for f in (tmp_path / "work").iterdir()] == ["kept.safetensors"]


def test_a_file_that_is_cut_or_written_over_is_told(tmp_path: Path) -> None:
    """By an error: a signal would end the program. What was read before is checked anew."""
    path = tmp_path / "p.safetensors"
    held = tensor(1 << 12)
    replace_file(path, held)
    store = WeightStore(tmp_path / "work")
    store.add(read_header(path))
    assert store.get(held.key()).key() == held.key()
    whole = path.read_bytes()
    with path.open("r+b") as file:
        file.truncate(len(whole) // 2)
    with pytest.raises(ProjectError, match=r"p\.safetensors cannot be read \(it is cut off\)") as caught:
        store.get(held.key())
    assert caught.value.hint
    path.write_bytes(whole[:-1] + b"x")
    with pytest.raises(ProjectError, match="damaged, or were changed"):
        store.get(held.key())


def test_places_that_are_no_files_are_told(tmp_path: Path) -> None:
    """A named pipe has no writer to wait for."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    store = WeightStore(tmp_path)
    for path in (pipe, tmp_path):
        store.add({"a": Location(path, 0, "float32", (2,))})
        with pytest.raises(ProjectError, match=r"no regular file|directory"):
            store.get("a")


def test_a_tensor_is_shared_while_somebody_has_it(tmp_path: Path) -> None:
    store = WeightStore(tmp_path)
    key = store.hold(tensor(1 << 12))
    store.flush("w")
    first = store.get(key)
    assert store.get(key).array is first.array and store.reader()(key).array is not first.array


def test_places_elsewhere_stay(tmp_path: Path) -> None:
    store = WeightStore(tmp_path)
    key = store.hold(tensor(4))
    place = store.flush("w")[key]
    copy = tmp_path / "copy"
    with copy.open("wb") as handle:
        write(handle, {key: tensor(4)})
    store.moved(copy, read_header(copy))
    assert store.places() == {key: place}


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = WeightStore(tmp_path / "file")
    key = store.hold(tensor(4))
    with pytest.raises(ProjectError, match="could not be kept"):
        store.flush("w")
    assert store.get(key).key() == key


# -- damage


@pytest.fixture
def sound(tmp_path: Path) -> bytes:
    path = tmp_path / "sound"
    with path.open("wb") as handle:
        write(handle, {"a": tensor(5, 7), "b": tensor(3, dtype="int64")})
    return path.read_bytes()


def refused(data: bytes, folder: Path) -> None:
    path = folder / "cut.safetensors"
    path.write_bytes(data)
    with pytest.raises(ProjectError, match=r"cut\.safetensors holds no readable safetensors data") as caught:
        read_header(path)
    assert caught.value.hint


def test_files_cut_anywhere_are_refused(sound: bytes, tmp_path: Path) -> None:
    for length in [*range(0, 12), *range(12, len(sound), 7), len(sound) - 1]:
        refused(sound[:length], tmp_path)


HEADERS = [
    "[]", "3", "null", '"x"', '{"a": []}', '{"a": null}', '{"a": {}}', "{" * 50_000, "\xff", '{"a":',
    '{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 8]}}',
    '{"a": {"dtype": "F32", "shape": [-1, -2], "data_offsets": [0, 8]}}',
    '{"a": {"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]}}',
    '{"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}}',
    '{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0]}}',
    '{"a": {"dtype": "F32", "shape": ["x"], "data_offsets": [0, 8]}}',
    '{"a": {"dtype": "F32", "shape": 2, "data_offsets": [0, 8]}}',
    '{"a": {"dtype": "F3", "shape": [2], "data_offsets": [0, 8]}}',
    '{"a": {"dtype": "F32", "shape": [4611686018427387904, 4], "data_offsets": [0, 0]}}',
    '{"a": {"dtype": "F32", "shape": [1e400], "data_offsets": [0, 8]}}',
]  # fmt: skip


@pytest.mark.parametrize("header", HEADERS, ids=range(len(HEADERS)))
def test_headers_that_lie_are_refused(header: str, tmp_path: Path) -> None:
    text = header.encode("latin-1")
    refused(len(text).to_bytes(8, "little") + text + bytes(64), tmp_path)


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(ProjectError, match=r"no readable|There is no file"):
            read_header(path)


def test_tensors_are_borrowed_for_a_while(tmp_path: Path) -> None:
    """Those that were here before stay."""
    mine, other = WeightStore(tmp_path), WeightStore(tmp_path)
    both, lent = (Tensor(np.full(3, i, np.float32), "float32") for i in range(2))
    held = mine.hold(both)
    keys = [other.hold(both), other.hold(lent)]
    with mine.borrowing(keys, other):
        assert np.array_equal(mine.get(keys[1]).array, lent.array)
    assert held in mine and keys[1] not in mine and keys[1] in other


@pytest.mark.parametrize("at", [0, 300_000, 799_999])
def test_what_lies_at_a_place_is_compared_to_its_last_byte(tmp_path: Path, at: int) -> None:
    """More than is read at once."""
    store = WeightStore(tmp_path)
    key = store.hold(tensor(200_000))
    (place,) = store.flush("w").values()
    assert place.size == 800_000 and WeightStore(tmp_path).holds(key, place)
    data = bytearray(place.path.read_bytes())
    data[place.offset + at] ^= 1
    place.path.write_bytes(data)
    assert not WeightStore(tmp_path).holds(key, place)
