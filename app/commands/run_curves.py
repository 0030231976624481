"""Option `run --curves`: training curves of a recipe as a chart or a table."""

from __future__ import annotations

import csv
import io
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from espalier.app.commands.command import Arguments, Parser, UsageError
from espalier.app.commands.console import Console
from espalier.model.borders import reading
from espalier.model.files import write_text
from espalier.passes.training.curve import Curve, Recorder

if TYPE_CHECKING:
    from espalier.app.figures.step_charts import Runs
    from espalier.passes.base import Context

KINDS = (".svg", ".png", ".csv")
COLUMNS = ("recipe", "step", "pass", "seed", "taught", "figure", "training step", "value")


def add_curves(parser: Parser) -> None:
    """Add the arguments of curves."""
    parser.add_argument("--curves", metavar="F.svg|.png|.csv", help="draw training and validation loss by step, "
                        "the mean over --seeds; or write them as a table")  # fmt: skip
    parser.add_argument("--compare", metavar="F.csv", action="append", default=[],
                        help="also draw the curves of an earlier run's table")  # fmt: skip
    parser.add_argument("--inset", action="store_true", help="add an enlarged inset of the later half of the loss")


class Curves:
    """Options of `--curves`; files are validated before the training starts."""

    def __init__(self, args: Arguments) -> None:
        self.path = Path(args.curves) if args.curves else None
        self.inset: bool = args.inset
        self.recorder = Recorder(Path(args.recipe).stem)
        self.recorder.seed = args.seed
        table = self.path is None or self.path.suffix.lower() == ".csv"
        if table and (args.compare or args.inset):
            raise UsageError("--compare and --inset are for a picture.", "Add --curves F.svg or --curves F.png.")
        if self.path is not None and self.path.suffix.lower() not in KINDS:
            raise UsageError(f"{args.curves} has an unknown file type.", f"End it in {', '.join(KINDS)}.")
        if self.path is not None and not self.path.parent.is_dir():
            raise UsageError(f"There is no folder {self.path.parent}.", "Create it, or choose another.")
        self.others = [(Path(name), _read(name)) for name in args.compare]

    @contextmanager
    def recording(self, context: Context, console: Console) -> Generator[Recorder]:
        """Record the curves of the enclosed run; the file is written also after an error."""
        context.metric, ended = self.recorder.metric, False
        try:
            yield self.recorder
            ended = True
        finally:
            if self.path is not None and self.recorder.curves:
                self._finish(self.path, ended, console)
            elif self.path is not None and ended:
                console.note(f"No step reported a loss, so {self.path} is not written.")

    @property
    def written(self) -> str | None:
        """The written file, or None."""
        return str(self.path) if self.path is not None and self.recorder.curves else None

    def _finish(self, path: Path, ended: bool, console: Console) -> None:
        """Write the file; after another error, a failure to write is only noted."""
        try:
            self._write(path)
        except UsageError as error:
            if ended:
                raise
            console.note(error.message)

    def _write(self, path: Path) -> None:
        from espalier.app.figures.curves import write
        from espalier.app.figures.step_charts import training

        if path.suffix.lower() == ".csv":
            write_text(path, to_csv(self.recorder.curves), UsageError)
        else:
            write(path, training(_runs([(path, self.recorder.curves), *self.others]), inset=self.inset), UsageError)


def _runs(files_: Sequence[tuple[Path, list[Curve]]]) -> list[Runs]:
    """Group trainings of one file that differ only in the seed; labels distinguish files, recipes and steps."""
    from espalier.app.figures.step_charts import Runs

    groups: dict[tuple[int, str, int], list[Curve]] = {}
    for number, (_, curves) in enumerate(files_):
        for curve in curves:
            groups.setdefault((number, curve.recipe, curve.place), []).append(curve)
    files = {recipe: {n for n, r, _ in groups if r == recipe} for _, recipe, _ in groups}
    several = {(n, r): sum(k[:2] == (n, r) for k in groups) > 1 for n, r, _ in groups}
    runs: list[Runs] = []
    for (number, recipe, place), curves in groups.items():
        file = f" ({files_[number][0].stem})" if len(files[recipe]) > 1 and number else ""
        step = f" step {place}" if several[number, recipe] else ""
        runs.append(Runs(f"{recipe}{file}{step}", tuple(curves)))
    return runs


def to_csv(curves: Sequence[Curve]) -> str:
    """CSV with one line per value."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for c in curves:
        for name, series in c.series.items():
            writer.writerows([c.recipe, c.place, c.name, c.seed, int(c.taught), name, *point] for point in series)
    return out.getvalue()


def _read(name: str) -> list[Curve]:
    """Read the curves of a table; raises UsageError."""
    by_curve: dict[tuple[str, ...], dict[str, list[tuple[int, float]]]] = {}
    with reading(name, UsageError, "is not a table of curves", "Give a table that --curves wrote."):
        with Path(name).open(encoding="utf-8", newline="") as handle:
            for row in csv.DictReader(handle):
                series = by_curve.setdefault(tuple(row[c] for c in COLUMNS[:5]), {})
                series.setdefault(row["figure"], []).append((int(row["training step"]), float(row["value"])))
        curves = [Curve(recipe, int(place), step, int(seed), taught == "1", {n: tuple(s) for n, s in series.items()})
                  for (recipe, place, step, seed, taught), series in by_curve.items()]  # fmt: skip
    if not curves:
        raise UsageError(f"{name} holds no curves.", "Give a table that --curves wrote.")
    return curves
