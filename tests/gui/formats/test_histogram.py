"""The histogram's drawing, and the numbers behind it against plain numpy."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from espalier.app.features.inspector.charts.histogram import WeightHistogram, digits_of, round_ticks
from espalier.app.features.inspector.charts.staircase import Staircase
from espalier.app.features.inspector.figures.formats import format_figures
from espalier.app.features.inspector.figures.statistics import SHARES, tensor_statistics
from espalier.app.features.inspector.figures.weights import FEW, MANY, histogram, loss, quick_loss
from espalier.app.figures.tensor_chunks import CHUNK, Stopped
from espalier.app.jobs.previews import Previews
from espalier.app.theme import DARK
from espalier.model.formats.base import parse_format
from espalier.model.formats.integer import Integer
from espalier.model.graph.views import View
from espalier.model.store.weights import Tensor

RANDOM = np.random.default_rng(7)


def tensor(count: int = 4096, scale: float = 0.02) -> Tensor:
    return Tensor(RANDOM.normal(0, scale, count).astype(np.float32), "float32")


def sqnr(x: np.ndarray, fmt: Integer) -> float:
    y = fmt.rounded(x).astype(np.float64)
    return 10 * math.log10(float((x.astype(np.float64) ** 2).sum() / ((x - y) ** 2).sum()))


def test_counts_add_up_and_masked_values_stand_apart() -> None:
    made = tensor()
    keep = np.abs(made.array) > 0.01
    found = histogram(made, np.packbits(keep))
    assert int(found.kept.sum()) == int(keep.sum()) and int(found.pruned.sum()) == int((~keep).sum())
    plain = np.histogram(made.array, found.edges)[0]
    assert np.abs(plain - found.kept - found.pruned).sum() <= 4, "float32 borders"


def test_chunks_do_not_change_the_result() -> None:
    made = tensor(2 * CHUNK + 11)
    keep = RANDOM.random(made.array.size) > 0.3
    found = histogram(made, np.packbits(keep))
    assert int(found.kept.sum()) == int(keep.sum())
    fmt = Integer(8, 10)
    lost = loss(fmt, made, np.packbits(keep))
    assert lost.sqnr == pytest.approx(sqnr(np.where(keep, made.array, np.float32(0)), fmt), abs=1e-6)


@pytest.mark.parametrize("text", ["mxint", "block_fp(width=6,block=16,rows=4)", "scaled_integer(granularity=channel)",
                                  "scaled_integer(width=4)", "nvfp4"])  # fmt: skip
@pytest.mark.parametrize("view", [None, View((1, 0))])
def test_rows_by_parts_are_as_exact_as_at_once(text: str, view: View | None) -> None:
    fmt, shape = parse_format(text), (1030, 1100)
    made = RANDOM.normal(0, 0.02, shape).astype(np.float32)
    keep = RANDOM.random(shape) > 0.3
    x = np.where(keep, made, np.float32(0))
    seen = x if view is None else np.ascontiguousarray(x.T)
    noise = ((seen.astype(np.float64) - fmt.rounded(seen)) ** 2).sum()
    mask, held = np.packbits(keep), Tensor(made, "float32")
    whole = loss(fmt, held, mask, view=view)
    assert whole.sqnr == pytest.approx(10 * math.log10((x.astype(np.float64) ** 2).sum() / noise), abs=1e-6)
    quick = quick_loss(fmt, held, mask, view=view)
    assert quick.sampled and quick.goes_on and not whole.sampled and quick.grid is not None
    assert quick.sqnr == pytest.approx(whole.sqnr, abs=0.5)


def test_what_is_small_is_exact_at_once_and_what_cannot_be_cut_stays_a_sample() -> None:
    small, large = tensor(FEW), Tensor(np.broadcast_to(np.float32(0.1), (MANY // 64 + 1, 64)), "float32")
    assert not quick_loss(Integer(8, 7), small, None).sampled
    assert quick_loss(Integer(8, 7), large, None).goes_on and quick_loss(parse_format("mxint"), large, None).goes_on
    for text in ("nvfp4", "scaled_integer(granularity=tensor)"):
        found = quick_loss(parse_format(text), large, None)
        assert found.sampled and not found.goes_on


def test_a_scale_for_all_is_that_of_the_largest_value_in_a_sample_too() -> None:
    made = RANDOM.normal(0, 0.02, (1200, 800)).astype(np.float32)
    made[777, 3] = -1.0
    fmt = parse_format("scaled_integer(granularity=tensor)")
    quick, whole = quick_loss(fmt, Tensor(made, "float32"), None), loss(fmt, Tensor(made, "float32"), None)
    assert quick.sampled and quick.sqnr == pytest.approx(whole.sqnr, abs=0.6)


def test_errors_of_a_pruned_tensor_against_both() -> None:
    made, fmt = tensor(CHUNK + 11), Integer(8, 9)
    keep = np.abs(made.array) > 0.01
    x = made.array.astype(np.float64)
    y = fmt.rounded(np.where(keep, made.array, np.float32(0))).astype(np.float64)
    lost = loss(fmt, made, np.packbits(keep))
    assert lost.whole_sqnr == pytest.approx(10 * math.log10((x**2).sum() / ((x - y) ** 2).sum()), abs=1e-6)
    assert lost.sqnr is not None and lost.whole_sqnr is not None and lost.sqnr > lost.whole_sqnr
    alone = histogram(made, np.packbits(keep)).pruning_sqnr
    assert alone == pytest.approx(10 * math.log10((x**2).sum() / (x[~keep] ** 2).sum()), abs=1e-6)
    assert loss(fmt, made, None).whole_sqnr is None and histogram(made, None).pruning_sqnr is None


def test_statistics_are_those_of_the_masked_tensor() -> None:
    made = tensor(CHUNK + 11)
    made.array[3], made.array[5] = np.nan, np.inf
    keep = RANDOM.random(made.array.size) > 0.3
    for mask, x in ((None, made.array), (np.packbits(keep), np.where(keep, made.array, np.float32(0)))):
        found, x = tensor_statistics(made, mask), x[np.isfinite(x)].astype(np.float64)
        assert found.elements == x.size and found.elements + found.not_finite == made.array.size
        told = (found.low, found.high, found.mean, found.deviation, found.abs_mean)
        assert told == pytest.approx((x.min(), x.max(), x.mean(), x.std(), np.abs(x).mean()))
        assert found.zeros == np.count_nonzero(x == 0)
        assert found.quantiles == pytest.approx(np.quantile(x, SHARES).tolist(), abs=float(np.ptp(x)) / 1000)
        assert found.around(3.0) == pytest.approx((x.mean() - 3 * x.std(), x.mean() + 3 * x.std()))


def test_statistics_of_nothing() -> None:
    found = tensor_statistics(Tensor(np.array([np.nan], np.float32), "float32"), None)
    assert (found.elements, found.not_finite, found.quantiles) == (0, 1, ())


def test_reference_sqnr() -> None:
    made = tensor(1 << 18)
    assert loss(Integer(8, 7), made, None).sqnr == pytest.approx(19.0, abs=0.2)
    four = loss(Integer(8, 4), made, None)
    assert four.zeros == pytest.approx(1 - 0.119, abs=0.01)
    assert four.best == Integer(8, 10) and four.best_sqnr == pytest.approx(37, abs=1.5)


def test_saturation_and_the_ends_of_the_grid() -> None:
    made = Tensor(np.array([-3.0, -0.5, 0.5, 0.99, 3.0], np.float32), "float32")
    lost = loss(Integer(8, 7), made, None)
    assert lost.saturated == pytest.approx(2 / 5) and (lost.low, lost.high) == (-1.0, 127 / 128)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(-0.16, 0.16, [-0.1, 0, 0.1]), (0.945, 1.042, [0.96, 0.98, 1.0, 1.02]), (-0.1, 7.6, [-5, 0, 5]),
     (0.0, 7.5, [2, 4, 6]), (-3e-5, -1e-5, [-2.5e-5, -2e-5, -1.5e-5]), (999.98, 1000.02, [999.99, 1000, 1000.01])],
)  # fmt: skip
def test_ticks_are_round_and_have_room(low: float, high: float, ticks: list[float]) -> None:
    found = round_ticks(low, high)
    assert found == pytest.approx(ticks)
    assert len({f"{t:.{digits_of(found)}g}" for t in found}) == len(found)


@pytest.mark.parametrize("values", [[], [0.0, 0.0], [np.nan, 1.0], [np.inf, -1.0], [5.0]])
def test_odd_tensors(values: list[float]) -> None:
    made = Tensor(np.array(values, np.float32), "float32")
    assert histogram(made, None).elements == int(np.isfinite(made.array).sum())
    assert loss(Integer(8, 4), made, None).reason == ""


@pytest.mark.parametrize("text", ["integer", "mxint"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_has_no_finite_values_is_not_exact(text: str, value: float) -> None:
    made, mask = Tensor(np.full((4, 32), value, np.float32), "float32"), np.packbits(np.ones(128, bool))
    for find in (loss, quick_loss):
        found = find(parse_format(text), made, None)
        assert found.sqnr is None and "finite" in found.reason
    assert histogram(made, mask).pruning_sqnr is None
    assert loss(parse_format(text), Tensor(np.zeros((4, 32), np.float32), "float32"), None).sqnr == math.inf


@pytest.mark.parametrize(("dtype", "most", "finite"), [("float8_e4m3fn", 448.0, 254), ("float8_e5m2", 57344.0, 248)])
def test_float8_is_read_without_torch(dtype: str, most: float, finite: int) -> None:
    found = histogram(Tensor(np.arange(256, dtype=np.uint8), dtype), None)
    assert (found.elements, found.least, found.most) == (finite, -most, most)
    one = {"float8_e4m3fn": 0x38, "float8_e5m2": 0x3C}[dtype]
    assert histogram(Tensor(np.array([one], np.uint8), dtype), None).most == 1.0


def test_work_stops_when_asked() -> None:
    with pytest.raises(Stopped):
        histogram(tensor(), None, lambda: True)


@pytest.mark.gui
def test_lines_are_thinned_and_themes_change(qtbot: QtBot, tmp_path: Path) -> None:
    chart = WeightHistogram()
    qtbot.addWidget(chart)
    chart.resize(260, 100)
    chart.show()
    made = tensor()
    chart.show_histogram(histogram(made, None))
    chart.show_loss(loss(Integer(8, 7), made, None))
    few, step = chart.lines()
    assert step == 1 and 0.0 in few
    chart.show_loss(loss(Integer(12, 14), made, None))
    many, step = chart.lines()
    assert step > 1 and len(many) <= 60 and 0.0 in many
    chart.set_theme(DARK)
    assert "of 4\u2009096" in chart.tooltip_at(0.0) and chart.tooltip_at(9.0) == ""
    for name in ("plot.png", "plot.svg", "plot.csv"):
        chart.export(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 100


@pytest.mark.gui
def test_the_latest_wish_wins_and_results_are_kept(qtbot: QtBot) -> None:
    previews = Previews()
    heard: list[tuple[str, object, object]] = []
    previews.ready.connect(lambda slot, key, result: heard.append((slot, key, result)))
    for number in range(20):
        assert previews.ask("a", number, lambda stop, n=number: n * 10) is None
    qtbot.waitUntil(lambda: bool(heard), timeout=3000)
    assert heard[-1] == ("a", 19, 190) and len(heard) < 20
    assert previews.ask("a", 19, lambda stop: 0) == 190
    with qtbot.waitSignal(previews.failed):
        previews.ask("a", "bad", lambda stop: 1 / 0)
    previews.close()
    previews.deleteLater()


@pytest.mark.gui
def test_the_same_items_are_drawn_again_with_other_values(qtbot: QtBot) -> None:
    chart = WeightHistogram()
    qtbot.addWidget(chart)
    chart.resize(260, 100)
    made = tensor()
    chart.show_histogram(histogram(made, None))
    chart.show_loss(loss(Integer(4, 7), made, None))
    items = list(chart.plot.items)
    assert chart._clip.isVisible() and chart._ends.isVisible() and len(chart._lines.xData) == 2 * len(chart.lines()[0])
    chart.show_loss(loss(Integer(8, 8), made, None))
    assert chart.plot.items == items and not chart._clip.isVisible(), "nothing saturates"
    assert sorted(set(chart._lines.xData)) == list(chart.lines()[0])
    chart.show_loss(None)
    assert chart._kept.isVisible() and not chart._lines.isVisible() and not chart._ends.isVisible()
    keep = np.packbits(np.abs(made.array) > 0.01)
    chart.show_histogram(histogram(made, keep))
    assert chart._pruned.isVisible() and chart.plot.items == items
    chart.show_histogram(None)
    assert not any(item.isVisible() for item in items)


@pytest.mark.gui
@pytest.mark.parametrize("error", [False, True])
def test_a_staircase_draws_the_same_items_again(qtbot: QtBot, error: bool) -> None:
    chart = Staircase(error)
    qtbot.addWidget(chart)
    chart.show_stairs(format_figures(Integer(4, 2)).whole)
    items = list(chart.plot.items)
    for fmt in (Integer(6, 2), parse_format("mxint")):
        found = format_figures(fmt).whole
        chart.show_stairs(found)
        assert chart.plot.items == items and np.array_equal(chart._curve.yData, chart.values(found))
        low, high = chart.plot.viewRange()[0]
        assert (low, high) == pytest.approx((found.x[0], found.x[-1]))
    chart.show_stairs(None)
    assert not any(item.isVisible() for item in items)
