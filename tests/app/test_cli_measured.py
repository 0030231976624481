"""Reports of times on a terminal: units that suit, three digits, and no column of which nothing is known."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from espalier.app.cli import main
from espalier.app.commands.measured import row_cells, summary_text
from espalier.app.commands.report import _csv, _lines
from espalier.passes.base import Report

ROW = {
    "node": "fc",
    "seconds": 0.00049541,
    "share": 0.03205,
    "rounding": 0.0,
    "device_seconds": 0.0,
    "gflop_s": 16.9612,
}
PROFILE = Report("profile", (ROW, ROW | {"node": "norm", "seconds": 0.0123949, "gflop_s": None}),
                 {"seconds": 0.0238212, "plain": 0.000582, "runs": 5})  # fmt: skip


def test_a_column_of_times_has_one_unit() -> None:
    first, second = row_cells(PROFILE)
    assert first == {"node": "fc", "time (ms)": 0.495, "share (%)": 3.21, "GFLOP/s": 17.0}
    assert second["time (ms)"] == 12.4 and second["GFLOP/s"] is None
    rounded = Report("profile", (ROW | {"rounding": 2e-5},), {})
    assert row_cells(rounded)[0]["rounding (µs)"] == 20.0


def test_the_summary_is_told_in_words() -> None:
    told = summary_text(PROFILE)
    assert told == {"under the profiler": "23.8\u2009ms", "without the profiler": "582\u2009µs", "runs": "5"}
    compiled = summary_text(Report("compile", (), {"compile_seconds": 23.94, "products_share": 0.705, "speedup": 1.25}))
    assert compiled == {"compile seconds": "23.9\u2009s", "products share": "70.5\u2009%", "speedup": "1.25"}


def test_other_reports_and_files_keep_what_is_told() -> None:
    plain = Report("cost", ({"seconds": 0.123456, "share": 0.5},), {"seconds": 0.5})
    assert row_cells(plain) == [{"seconds": 0.123456, "share": 0.5}] and summary_text(plain) == {"seconds": "0.5"}
    read = next(csv.DictReader(io.StringIO(_csv([PROFILE], {}))))
    assert float(read["seconds"]) == ROW["seconds"] and float(read["share"]) == ROW["share"]
    assert not any("0.0004954" in line or "0.0238" in line for line in _lines([PROFILE]))


def test_the_page_says_the_same(tmp_path: Path) -> None:
    page = tmp_path / "profile.html"
    assert main(["report", "demo:digits-mlp", "--what", "profile", "-o", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert "without the profiler" in text and "device" in text and "device seconds" not in text
