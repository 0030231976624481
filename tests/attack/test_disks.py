"""Disks that are full, read-only, gone or no disks: every command that writes says so in two lines and exits with 2,
the old file is as it was, and nothing half-written stays.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from espalier.app.cli import main
from espalier.passes.export.executorch.child import missing

Capture = pytest.CaptureFixture[str]
MLP = "demo:digits-mlp"
ROOT = Path(__file__).resolve().parents[2]
RECIPE = """
[[steps]]
pass = "quantize"
[[steps.options.rules]]
select = {by = "type", values = ["linear"]}
[steps.options.rules.formats]
data_in = "integer(width=8,frac_width=4)"
weight = "integer(width=8,frac_width=6)"
bias = "integer(width=12,frac_width=8)"
[[steps]]
pass = "balance_parallelism"
options = {multipliers = 64}
"""
LORA = """
[[steps]]
pass = "lora"
options = {rank = 2}
"""
TUNE = """
[[steps]]
pass = "finetune"
[steps.options]
data = "demo:digits"
max_steps = 2
train_limit = 32
validation_limit = 16
"""
SPEC = """
goals = ["accuracy"]
sampler = "grid"
trials = 2
[[space]]
per = "all"
values = "integer(width=4|8)"
[score]
limit = 32
"""
# What writes: the words, with {t} where the target's name stands; the target's ending; whether it is a folder.
WRITES: dict[str, tuple[str, str]] = {
    "run": ("run {mlp} {r.toml} -o {t}", ".espalier"),
    "trace": ("trace {mlp} -o {t}", ".espalier"),
    "picture": ("trace {mlp} --svg {t}", ".svg"),
    "curves svg": ("run {mlp} {tune.toml} --curves {t}", ".svg"),
    "curves png": ("run {mlp} {tune.toml} --curves {t}", ".png"),
    "curves csv": ("run {mlp} {tune.toml} --curves {t}", ".csv"),
    "safetensors": ("export {p.espalier} --as safetensors -o {t}", "/"),
    "adapter": ("export {lora.espalier} --as adapter -o {t}", "/"),
    "packed": ("export {p.espalier} --as packed -o {t}", ".packed.safetensors"),
    "onnx": ("export {p.espalier} --as onnx -o {t}", ".onnx"),
    "openvino": ("export {p.espalier} --as openvino -o {t}", ".xml"),
    **({} if missing() else {"executorch": ("export {p.espalier} --as executorch -o {t}", ".pte")}),
    "pt2": ("export {p.espalier} --as pt2 -o {t}", ".pt2"),
    "recipe": ("export {p.espalier} --as recipe -o {t}", ".toml"),
    "script": ("export {p.espalier} --as script -o {t}", ".py"),
    "emit": ("emit {p.espalier} -o {t}", "/"),
    "report": ("report {mlp} -o {t}", ".html"),
    "sensitivity": ("sensitivity {mlp} --formats mxint --ports weight --limit 16 -o {t}", ".json"),
    "allocate": (
        "allocate {mlp} --formats mxint,float --budget weight_bits<=9 --ports weight --limit 16 -o {t}",
        ".toml",
    ),
    "formats": ("formats integer(width=4) --apply {x.npy} {t}", ".npy"),
    "kernels": ("kernels fake_quant_integer --seconds 0 -o {t}", ".json"),
    "sweep csv": ("sweep {mlp} {r.toml} --over quantize.width=4:8:4 --limit 16 -o {t}", ".csv"),
    "sweep jsonl": ("sweep {mlp} {r.toml} --over quantize.width=4:8:4 --limit 16 -o {t}", ".jsonl"),
    "sweep png": ("sweep {mlp} {r.toml} --over quantize.width=4:8:4 --limit 16 -o {t}", ".png"),
    "sweep espalier": ("sweep {mlp} {r.toml} --over quantize.width=4:8:4 --limit 16 -o {t}", ".espalier"),
    "search csv": ("search {mlp} {spec.toml} -o {t}", ".csv"),
    "search svg": ("search {mlp} {spec.toml} -o {t}", ".svg"),
    "search toml": ("search {mlp} {spec.toml} -o {t}", ".toml"),
    "search espalier": ("search {mlp} {spec.toml} -o {t}", ".espalier"),
    "search journal": ("search {mlp} {spec.toml} --storage journal:///{t}", ".journal"),
    "search sqlite": ("search {mlp} {spec.toml} --storage sqlite:///{t}", ".db"),
}
RECORDS = re.compile(r"t\.\w+(\.jsonl|\.journal.*)|t\.(jsonl|journal|db).*")  # what is done so far is kept on purpose
OWN = ("search journal", "search sqlite", "sweep jsonl")  # whose target is a record: an old one is gone on with
QUICK = ("trace", "recipe", "packed", "emit", "sweep csv", "report")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the commands read."""
    import numpy as np

    folder = tmp_path_factory.mktemp("inputs")
    for name, text in {"r.toml": RECIPE, "spec.toml": SPEC, "tune.toml": TUNE, "lora.toml": LORA}.items():
        (folder / name).write_text(text)
    np.save(folder / "x.npy", np.ones(4000, np.float32))
    for recipe, project in (("r", "p"), ("lora", "lora")):
        assert main(["run", MLP, str(folder / f"{recipe}.toml"), "-o", str(folder / f"{project}.espalier")]) == 0
    return {p.name: str(p) for p in folder.iterdir()} | {"mlp": MLP}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))


@contextlib.contextmanager
def disk(folder: Path, options: str) -> Generator[Path]:
    """A small disk of its own; skips where none may be made."""
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no disk can be mounted here ({done.stderr.strip()[:80]})")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def words_of(name: str, target: str, files: dict[str, str]) -> list[str]:
    held = {**files, "t": target}
    return [re.sub(r"\{([^}]+)\}", lambda m: held[m[1]], w) for w in WRITES[name][0].split()]


def put_old(name: str, folder: Path) -> str:
    """An old file or folder where the target will be, as far as an old one is not read by the command."""
    ending = WRITES[name][1]
    target = folder / ("t" if ending == "/" else f"t{ending}")
    if name in OWN:
        return str(target)
    if ending != "/":
        target.write_text("old")
    elif name != "emit":  # which refuses a folder that it did not make
        target.mkdir()
        (target / "old").write_text("old")
    return str(target)


def content(folder: Path) -> dict[str, bytes | None]:
    found = {str(p.relative_to(folder)): None if p.is_dir() else p.read_bytes() for p in folder.rglob("*")}
    return {k: v for k, v in found.items() if not RECORDS.fullmatch(k) and k != "filler"}


def refused(words: list[str], capsys: Capture) -> str:
    """Run it; it ends with exit code 2 and two lines."""
    capsys.readouterr()
    return two_lines(main(words), capsys)


def two_lines(code: int, capsys: Capture) -> str:
    """What is said at the end, which is two lines with exit code 2."""
    said = capsys.readouterr().err
    assert code == 2, f"exit {code}: {said[-600:]}"
    assert "Traceback" not in said
    lines = said.strip().splitlines()
    told = [line for line in lines if not re.match(r"\[|trial|Stopped|No checkpoint", line)][-2:]
    assert len(told) == 2 and all(line.rstrip().endswith((".", "?")) for line in told), said
    return "\n".join(told)


def cases() -> list[object]:
    rest = [pytest.mark.slow, pytest.mark.sampled(0.4)]
    return [pytest.param(n, marks=[] if n in QUICK else rest) for n in WRITES]


@pytest.mark.parametrize("room", [0, 6000, 40_000])
@pytest.mark.parametrize("name", cases())
def test_full(name: str, room: int, files: dict[str, str], tmp_path: Path, capsys: Capture) -> None:
    """`room`: bytes that are left; some commands find enough in a little room, and then are done."""
    with disk(tmp_path / "disk", "size=1m") as folder:
        target = put_old(name, folder)
        with contextlib.suppress(OSError), (folder / "filler").open("wb", buffering=0) as filler:
            while filler.write(bytes(4096)):
                pass
        if room:
            os.truncate(folder / "filler", (folder / "filler").stat().st_size - room)
        before = content(folder)
        words = words_of(name, target, files)
        code = main(words)
        assert not [n for n in content(folder) if ".part" in n]
        if code or not room:
            told = two_lines(code, capsys)
            assert "No space left" in told or "full" in told, told
            assert content(folder) == before


@pytest.mark.parametrize("name", cases())
def test_read_only(name: str, files: dict[str, str], tmp_path: Path, capsys: Capture) -> None:
    with disk(tmp_path / "disk", "size=1m") as folder:
        target = put_old(name, folder)
        before = content(folder)
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        assert "Read-only" in (told := refused(words_of(name, target, files), capsys)) or "readonly" in told
        assert content(folder) == before


@pytest.mark.parametrize("name", cases())
def test_names_that_cannot_be(name: str, files: dict[str, str], tmp_path: Path, capsys: Capture) -> None:
    """Too long, below a file, in a folder that is gone, a device."""
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "file").write_text("old")
    ending = "" if WRITES[name][1] == "/" else WRITES[name][1]
    gone = (
        [] if name in ("safetensors", "adapter", "onnx", "openvino", "executorch", "pt2", "emit") else ["gone/t"]
    )  # which make the folder
    for wrong in ("x" * 300, "file/t", *gone):
        before = content(tmp_path / "place")
        refused(words_of(name, f"{tmp_path}/place/{wrong}{ending}", files), capsys)
        assert content(tmp_path / "place") == before


@pytest.mark.parametrize("name", ["trace", "recipe", "report"])
def test_devices(name: str, files: dict[str, str], tmp_path: Path, capsys: Capture) -> None:
    """A device is neither written nor replaced, by whatever name it goes; never tried on the system's own."""
    device, link, pipe = (tmp_path / f"{n}{WRITES[name][1]}" for n in ("null", "link", "pipe"))
    os.mkfifo(pipe)
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError as error:
        pytest.skip(f"no device can be made here ({error.strerror})")
    link.symlink_to(device)
    for target in (device, link, pipe):
        assert "device" in refused(words_of(name, str(target), files), capsys)
    assert link.is_symlink() and device.is_char_device() and pipe.is_fifo()


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_answer_that_cannot_be_written(more: list[str]) -> None:
    """`> /dev/full`: as any other full disk."""
    with open("/dev/full", "wb") as full:
        words = [sys.executable, "main.py", "formats", *more]
        done = subprocess.run(words, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["The answer could not be written (No space left on device).",
                                        "Free some space there or choose another folder."]  # fmt: skip


@pytest.mark.slow
def test_training_goes_on_without_checkpoints(files: dict[str, str], tmp_path: Path, capsys: Capture,
                                              monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """The disk of the checkpoints is full: the training has its result all the same, and says what it lacks."""
    recipe = tmp_path / "tune.toml"
    recipe.write_text(TUNE + "checkpoint_every = 1\n")
    with disk(tmp_path / "disk", "size=16k") as folder:
        monkeypatch.setenv("ESPALIER_STATE", str(folder))
        capsys.readouterr()
        assert main(["run", MLP, str(recipe), "-o", str(tmp_path / "t.espalier"), "--json"]) == 0
        said = capsys.readouterr()
        assert "No checkpoint could be written" in said.out + said.err and "No space left" in said.out + said.err
        assert not [p for p in folder.rglob("*") if ".part" in p.name]
    assert json.loads(said.out)["output"]
