"""Answers: bits against torch, bytes against the kernels, tiles against counting, figures against what was measured."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from espalier.app.cli import main
from espalier.app.features.kernels.state.answer_text import note_text, value_text
from espalier.app.number_text import NOT_MEASURED
from espalier.kernels.bench import machine
from espalier.kernels.bench.answers import measure, passes
from espalier.kernels.bench.answers.bits import bits_of, dequantise, encoded, rounded, steps
from espalier.kernels.bench.answers.lines import LINES, Line, break_even, compiled, lines_of, ridge, saving
from espalier.kernels.bench.answers.measured_data import Fact, MeasuredData, merge_measurements
from espalier.kernels.bench.answers.questions import QUESTIONS, question
from espalier.kernels.bench.answers.tiles import Tiling, description
from espalier.kernels.bench.ceilings import Ceilings
from espalier.kernels.bench.results import Row
from espalier.kernels.bench.spec import KERNELS, KernelError
from espalier.model.errors import EspalierError
from espalier.model.formats.mxint import MXInt
from espalier.model.torch.mx_weights import MXWeight, packed, plain


def row(kernel: str, version: str, seconds: float | None, **more: Any) -> Row:
    """A row of a run."""
    return replace(Row(kernel, version, "cpu", "float32", {"m": 4, "n": 8}, seconds, bytes=100, least=seconds), **more)


# -- bits


def test_every_code_and_exponent_goes_the_way_of_torch() -> None:
    codes, stored = torch.meshgrid(torch.arange(-128, 128), torch.arange(256), indexing="ij")
    size, head = codes.abs(), (stored << 7) | torch.where(codes < 0, 0x8000, 0)
    as_float = lambda bits: bits.to(torch.int32).to(torch.uint16).view(torch.bfloat16)  # noqa: E731
    built, bias = as_float(head | ((size & 63) << 1)), as_float(head)
    want = torch.where((size & 64) != 0, built, built - bias).double()
    held = [dequantise(m, s) for m in range(-128, 128) for s in range(256)]
    got = torch.tensor([d.result for d in held], dtype=torch.float64).reshape(256, 256)
    assert torch.equal(got.isnan(), want.isnan()) and torch.equal(got.nan_to_num(), want.nan_to_num())


def test_the_definition_is_that_of_the_weights() -> None:
    codes = torch.arange(-127, 128, dtype=torch.int8).repeat(255, 1)
    exponents = torch.arange(255, dtype=torch.uint8)[:, None]
    values = plain(MXWeight(codes, exponents, 255, 8, 255), torch.bfloat16)
    for s in (0, 1, 2, 126, 127, 253, 254):
        for m in (-127, -64, -63, -1, 0, 1, 63, 64, 127):
            assert dequantise(m, s).defined == values[s, m + 127].item()


def test_the_trick_is_right_where_it_is_said_to_be() -> None:
    for m in range(-128, 128):
        for s in range(256):
            found = dequantise(m, s)
            assert (found.why_not == "") == found.agrees
            if m != -128 and 0 < s < 255:
                assert found.agrees, (m, s)
    assert dequantise(-128, 127).result == 0 and dequantise(-128, 127).defined == -2
    assert "−128" in dequantise(-128, 127).why_not and "denormal" in dequantise(3, 0).why_not
    assert dequantise(0, 127).agrees and dequantise(0, 127).result == 0


@pytest.mark.parametrize(("code", "stored"), [(-129, 1), (128, 1), (0, -1), (0, 256)])
def test_what_is_no_byte_is_refused(code: int, stored: int) -> None:
    with pytest.raises(KernelError) as caught:
        dequantise(code, stored)
    assert caught.value.hint


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_values_get_the_code_that_the_format_gives(value: float) -> None:
    code, stored = encoded(value)
    held = packed(MXInt(8, 32), torch.tensor([[value]]))
    assert code == held.codes.item() and (stored == held.exponents.item() or code == 0)


@given(st.floats(width=32))
def test_rounding_is_that_of_torch(value: float) -> None:
    want = torch.tensor(value).to(torch.bfloat16)
    assert rounded(value) == want.item() or math.isnan(value)
    if math.isfinite(want.item()):
        assert bits_of(want.item()) == want.view(torch.uint16).item()


def test_encoding_refuses_what_is_no_number() -> None:
    for value in (math.nan, math.inf):
        with pytest.raises(KernelError):
            encoded(value)
    with pytest.raises(KernelError):
        encoded(1.0, 255)
    assert encoded(1e30, 127) == (127, 127) and encoded(-1e300, 254) == (-127, 254)


def test_steps_tell_the_bits() -> None:
    told_ = {s.name: s for s in steps(dequantise(-75, 125))}
    assert told_["stored"].bits == "10110101  01111101" and told_["sign and size"].bits == "1 001011"
    assert told_["bfloat16 built"].bits == "1 01111101 0010110" and told_["bias"].bits == "1 01111101 0000000"
    assert told_["dont_need_abs"].bits == "1" and told_["result"].value == -75 / 64 / 4


# -- passes


def test_bytes_are_those_of_the_kernel() -> None:
    kernel = KERNELS.get("softmax")
    naive, fused = kernel.version("naive"), kernel.version("torch")
    for m, n in ((3, 5), (4096, 2048)):
        assert passes.moved(passes.NAIVE, m, n, 2) == (naive.traffic or kernel.traffic)({"m": m, "n": n}, 2)
        assert passes.moved(passes.FUSED, m, n, 2) == (fused.traffic or kernel.traffic)({"m": m, "n": n}, 2)
    assert str(passes.reads(passes.NAIVE)) == "5MN + 2M" and str(passes.writes(passes.NAIVE)) == "3MN + 2M"
    assert str(passes.reads(passes.FUSED)) == str(passes.writes(passes.FUSED)) == "MN"


@given(st.lists(st.floats(-80, 80), min_size=1, max_size=40), st.integers(1, 9))
def test_an_online_softmax_ends_as_a_softmax(scores: list[float], block: int) -> None:
    states = list(passes.online(scores, block))
    exact = torch.tensor(scores, dtype=torch.float64)
    assert states[-1].largest == max(scores) and states[-1].end == len(scores)
    assert states[-1].total == pytest.approx((exact - exact.max()).exp().sum().item())
    assert [s.end for s in states[:-1]] == list(range(block, len(scores), block))[: len(states) - 1]


# -- tiles


@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 9), st.integers(1, 9), st.data())
def test_every_element_has_one_thread(rows: int, columns: int, down: int, across: int, data: st.DataObject) -> None:
    order = data.draw(st.sampled_from(("rows", "columns")))
    tiling = Tiling(
        rows, columns, down, across, data.draw(st.integers(1, down)), data.draw(st.integers(1, across)), order
    )
    tiling.check()
    count = tiling.grid[0] * tiling.grid[1]
    read = Counter(at for tile in range(count) for t in range(tiling.threads) for at in tiling.elements(tile, t))
    assert read == Counter((i, j) for i in range(rows) for j in range(columns))
    for t in range(tiling.threads):
        assert all(tiling.thread(*at) == t for at in tiling.taken(t))
    assert tiling.masked() == count * down * across - rows * columns


def test_sectors_tell_rows_from_columns() -> None:
    along = Tiling(64, 64, 32, 32, 1, 32, "rows", 4)
    assert along.sectors() == (4, 4)
    assert replace(along, thread_rows=32, thread_columns=1).sectors() == (32, 4)
    assert replace(along, rows=1, columns=3, thread_columns=32).sectors()[0] == 1
    assert all(description(along)) and "not there" in description(replace(along, rows=63))[-1]


@pytest.mark.parametrize(
    "changes", [{"rows": 0}, {"order": "x"}, {"thread_rows": 9}, {"rows": 1 << 20},
                {"tile_rows": 64, "tile_columns": 64, "thread_rows": 64, "thread_columns": 64}],
)  # fmt: skip
def test_impossible_tilings(changes: dict[str, Any]) -> None:
    with pytest.raises(KernelError) as caught:
        replace(Tiling(), **changes).check()
    assert caught.value.hint


# -- answers


def test_nothing_measured_says_so() -> None:
    assert set(LINES) == {q.key for q in QUESTIONS} == set(measure.WAYS)
    for key in LINES:
        lines = lines_of(key, MeasuredData())
        assert lines and all(line.computed or line.value is None for line in lines), key


def test_figures_follow_from_what_was_measured() -> None:
    found = [Ceilings("cpu", 100.0, {"float32": 0.5}), row("softmax", "torch", 1e-3, bytes=1000),
             row("softmax", "naive", 3e-3, bytes=4100), row("softmax", "compiled", None, problem="no compiler"),
             row("softmax", "torch", 9.0, device="cuda"), Fact("weight in float", 100, "bytes", 32),
             Fact("weight packed", 30, "bytes", 8)]  # fmt: skip
    known = merge_measurements("cpu", found)
    lines = {line.label: line for line in lines_of("softmax", known)}
    assert lines["fused is faster by"].value == pytest.approx(3) and lines["naive: bytes"].value == 4100
    assert lines["naive: bandwidth"].value == pytest.approx(4100 / 3e-3 / 1e9)
    assert lines["compiled: bandwidth"].note == "no compiler" and lines["a copy on this machine"].value == 100
    memory = {line.label: line.value for line in lines_of("memory", known)}
    assert memory["MXINT8: a weight of 3072 × 768, measured"] == pytest.approx(0.7)
    assert memory["MXINT4: a weight of 3072 × 768, measured"] is None
    assert {line.label: line.value for line in lines_of("roofline", known)}["ridge, float32"] == pytest.approx(5)
    again = merge_measurements("cpu", [row("softmax", "torch", 2e-3)], known)
    assert again.row("softmax", "torch") == row("softmax", "torch", 2e-3) and len(again.rows) == len(known.rows)


def test_what_is_not_measured_never_shows_its_unit_or_note() -> None:
    for key in LINES:
        said = [value_text(line) for line in lines_of(key, MeasuredData()) if not line.computed]
        assert set(said) <= {NOT_MEASURED}, key


def test_answers_tell_of_a_busy_machine() -> None:
    busy = replace(row("softmax", "torch", 1e-3), others=0.5)
    last = lines_of("softmax", merge_measurements("cpu", [busy]))[-1]
    assert last.label == "other programs" and last.value == 0.5
    assert "other programs" not in {x.label for x in lines_of("attention", merge_measurements("cpu", [busy]))}


def test_savings_and_ridges() -> None:
    assert f"{saving(8):.1%}, {saving(4):.1%}" == "74.2%, 86.7%"
    assert ridge(4000, 800) == 200


def test_break_even() -> None:
    assert break_even(10, 2) == 5 and break_even(0.1, 2) == 1 and math.isinf(break_even(10, 0))
    firsts = (("eager", 4e-6, 1e-3), ("captured", 9e-5, 0.1), ("compiled", 8e-5, 2.0))
    known = merge_measurements(
        "cpu", [row("small layer", version, later, first=first) for version, later, first in firsts]
    )
    assert math.isinf(compiled("small layer", known).break_even or 0)
    lines = {line.label: line for line in lines_of("compile", known)}
    assert "20 × as long" in lines["small layer: a later call, compiled"].note
    assert (
        "86 µs" in lines["small layer: a later call, compiled"].note
        and "never" in lines["small layer: pays after"].note
    )


def test_attention_lines_name_the_shortest_and_the_longest() -> None:
    def timed(version: str, tokens: int, seconds: float) -> Row:
        shape = {"b": 1, "h": 4, "s": tokens, "d": 64, "causal": 0, "mask": 0}
        return row("attention", version, seconds, shape=shape)

    found = [timed(v, s, s * k) for v, k in (("naive", 2e-6), ("torch", 1e-6)) for s in (64, 128)]
    known = merge_measurements("cpu", [*found, Fact("attention memory naive", 12345, "bytes", 128)])
    lines = {line.label: line for line in lines_of("attention", known)}
    assert lines["128 tokens: a matrix of scores"].value == 4 * 128 * 128 * 4
    assert lines["128 tokens: most held beside the inputs, naive"].value == 12345
    assert lines["64 tokens: most held beside the inputs, naive"].value is None
    assert "2 × as fast" in lines["64 tokens: fused (torch)"].note


def test_sources_and_links_are_there() -> None:
    for asked in QUESTIONS:
        assert all(f"def {s.name}(" in s.text for s in asked.sources) and asked.links and asked.formulas
        assert all(link.url.startswith("https://") for link in asked.links)
    with pytest.raises(KernelError, match="no question") as caught:
        question("nosuch")
    assert caught.value.hint.count("attention") == 1


# -- measuring


def heard(key: str) -> list[Any]:
    """What a measurement finds."""
    found: list[Any] = []
    measure.measure(key, "cpu", lambda done, total, text: None, found.append)
    return found


def test_memory_is_that_of_storages() -> None:
    facts = {(f.name, f.at): f.value for f in heard("memory")}
    assert facts["weight in float", 32] == 3072 * 768 * 4
    assert facts["weight packed", 8] == 3072 * 768 * 33 / 32 and facts["weight packed", 4] == 3072 * 768 * 17 / 32


def test_most_held_is_what_a_call_holds() -> None:
    x = torch.ones(1000, 1000)
    most = measure.peak_bytes(lambda: ((x + 1) * 2).sum(), "cpu")
    assert 8_000_000 <= most < 8_100_000


def test_tiles_are_timed_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(measure.SIDE, "cpu", 64)
    monkeypatch.setattr(measure, "SECONDS", 0.0)
    rows = {r.version: r for r in heard("tiles")}
    assert set(rows) == {"along rows", "down columns"} and all(r.seconds and r.gb_s for r in rows.values())


def test_no_compiler_is_said_and_the_rest_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "compiler", lambda: None)
    monkeypatch.setattr(measure, "SECONDS", 0.0)
    monkeypatch.setattr(measure, "LARGE", {"rows": 4, "columns": 8})
    known = merge_measurements("cpu", heard("compile"))
    assert "C++ compiler" in known.problem("small layer", "compiled") and known.row("large chain", "eager")
    lines = {line.label: line for line in lines_of("compile", known)}
    assert "C++ compiler" in lines["small layer: pays after"].note


@pytest.mark.skipif(
    machine.compiler() is None or machine.has_space_in_torch_path(), reason="inductor cannot compile here"
)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_compiled_calls_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "LARGE", {"rows": 64, "columns": 64})
    known = merge_measurements("cpu", heard("compile"))
    held = compiled("small layer", known)
    assert held.first and held.compiled and held.first > held.compiled


def test_a_place_where_nothing_links_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "compiler", lambda: "g++")
    monkeypatch.setattr(machine, "has_space_in_torch_path", lambda: True)
    monkeypatch.setattr(measure, "LARGE", {"rows": 64, "columns": 64})
    assert "a space in its name" in merge_measurements("cpu", heard("compile")).problem("small layer", "compiled")


def test_a_stopped_measurement_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "compiler", lambda: None)

    class Halt(Exception):
        pass

    def progress(done: int, total: int, text: str) -> None:
        raise Halt

    for key in measure.WAYS:
        with pytest.raises(Halt):
            measure.measure(key, "cpu", progress, lambda found: None)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_bad_wishes() -> None:
    for key, device in (("sofmax", "cpu"), ("softmax", "cuda")):
        with pytest.raises(EspalierError) as caught:
            measure.measure(key, device, lambda done, total, text: None, lambda found: None)
        assert caught.value.hint


# -- in words


def test_words_of_figures() -> None:
    times = [value_text(Line("a", v, "s")) for v in (2.5, 0.0123, 4e-6)]
    assert times == ["2.5\u2009s", "12.3\u2009ms", "4\u2009µs"]
    assert value_text(Line("a", None, "s")) == "not measured yet" and value_text(Line("a", None, "s", "why")) == "why"
    assert value_text(Line("a", 0.742, "share")) == "74.2\u2009%" and note_text(Line("a", None, "s", "why")) == ""
    assert value_text(Line("a", 12.34, "GB/s")) == "12.3\u2009GB/s" and value_text(Line("a", 3, "×")) == "3\u2009×"


def test_answers_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.json"
    words = ["--answers", "memory", "--device", "cpu", "--model", "demo:digits-mlp", "-o", str(file)]
    assert main(["kernels", *words]) == 0
    text = capsys.readouterr().out
    assert "74.2\u2009%" in text and "demo:digits-mlp: model in memory" in text and str(file) in text
    held = json.loads(file.read_text())["answers"]
    assert [a["question"] for a in held] == ["memory"] and held[0]["lines"][0]["value"] == saving(8)


def test_bad_wishes_on_the_command_line(tmp_path: Path) -> None:
    for words in (["sofmax"], ["compile", "--model", "x"], ["memory", "-o", str(tmp_path)]):
        assert main(["kernels", "--answers", *words]) == 2
    assert main(["kernels", "--model", "x"]) == 2
