"""The text that is written: the top module to the letter, and the folder that holds it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from espalier.model.errors import EmitError
from espalier.verilog.design.netlist import Design, Wire
from espalier.verilog.rtl.write import top, write
from espalier.verilog.timing.buffering import with_fifos
from espalier.verilog.timing.schedule import schedule
from tests.verilog.test_linear import layer
from tests.verilog.test_schedule import chain

GOLDEN = Path(__file__).parent.parent / "golden" / "top.sv"


def two_layers() -> Design:
    design = chain(layer("a", (8, 2), (8, 1), 2), replace(layer("b", (8, 1), (4, 2), 2), shape=(2, 4)))
    return with_fifos(design, {Wire("a"): 3})


def test_the_top_is_as_it_was() -> None:
    design = two_layers()
    assert top(design, schedule(design)) == GOLDEN.read_text()


def test_the_schedule_is_in_the_comments_alone() -> None:
    design = two_layers()
    told, bare = (top(design, p).splitlines() for p in (schedule(design), None))
    assert told != bare and len(told) == len(bare)
    assert [x for x in told if "//" not in x] == [x for x in bare if "//" not in x]


def test_what_was_built_goes_and_what_is_foreign_stays(tmp_path: Path) -> None:
    design = two_layers()
    write(design, tmp_path / "rtl")
    (tmp_path / "rtl" / "waves").mkdir()
    (tmp_path / "rtl" / "waves" / "waves.fst").write_text("old")
    write(design, tmp_path / "rtl")
    assert not (tmp_path / "rtl" / "waves").exists()
    (tmp_path / "mine" / "build").mkdir(parents=True)
    (tmp_path / "mine" / "build" / "house.txt").write_text("bricks")  # nothing was ever emitted here
    with pytest.raises(EmitError, match="holds other files"):
        write(design, tmp_path / "mine")
    assert (tmp_path / "mine" / "build" / "house.txt").read_text() == "bricks"


def test_a_folder_is_whole_or_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    design, folder = two_layers(), tmp_path / "rtl"
    write(design, folder)
    before = {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    def full(self: Path, *_: object, **__: object) -> int:
        if self.name == "linear.sv":
            raise OSError(28, "No space left on device")
        return plain(self, *_, **__)  # type: ignore[arg-type]

    plain = Path.write_text
    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(EmitError, match="No space left"):
        write(replace(design, name="other"), folder)
    assert {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before
    assert [p.name for p in tmp_path.iterdir()] == ["rtl"]


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EmitError, match="could not be written"):
        write(two_layers(), tmp_path / "file" / "deep" / "rtl")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
