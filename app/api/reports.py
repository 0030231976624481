"""Return types of the Python API: frozen values that print as tables, and as HTML in notebooks."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from espalier.app.commands.console import cell, facts, table
from espalier.app.number_text import row_value
from espalier.model.document.recipe import Recipe
from espalier.model.errors import EspalierError, OptionsError, nearest
from espalier.passes.export.recipe import to_toml
from espalier.passes.recipes.config import recipe_to_dict

if TYPE_CHECKING:
    import pandas as pd

LINES, WIDTH = 20, 72  # printed rows, and characters per cell; `.rows` has all
HIDDEN = ("hits", "evidence", "correction", "configuration_correction")  # texts and lists not printed
Row = dict[str, Any]


class UnknownNameError(OptionsError, AttributeError):
    """An unknown attribute; `hasattr` and `getattr` with a default work as usual."""


class Table:
    """Base of reports and recipes: rows with text, HTML and pandas output."""

    __slots__ = ()

    @property
    def title(self) -> str:
        """One line above the table."""
        raise NotImplementedError

    @property
    def figures(self) -> Mapping[str, Any]:
        """Summary figures besides the rows."""
        return {}

    @property
    def rows(self) -> list[Row]:
        """The rows as a list of dicts, one key a column; the caller may change it.

        Example:
            worst = max(m.sensitivity("demo:digits").rows, key=lambda row: row["predicted"])
        """
        raise NotImplementedError

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame.

        Raises:
            EspalierError: pandas is not installed. Espalier does not need it.
        """
        try:
            import pandas
        except ImportError as error:
            raise EspalierError("pandas is not installed.", "Use .rows, or run pip install pandas.") from error
        return pandas.DataFrame(self.rows)

    def __repr__(self) -> str:
        return "\n".join([self.title, *facts(_figure_texts(self.figures), "  "), *self._table()])

    def _table(self) -> Iterable[str]:
        rows = self.rows
        yield from table([{k: _short(row_value(r, k)) for k in r} for r in rows[:LINES]], "  ") if rows else ()
        if len(rows) > LINES:
            yield f"  … {len(rows) - LINES} more rows in .rows"

    def _repr_html_(self) -> str:
        rows = self.rows
        names = list(dict.fromkeys(k for row in rows for k in row))
        head = "".join(f"<th>{escape(n.replace('_', ' '))}</th>" for n in names)
        body = "".join("<tr>" + "".join(_td(row_value(r, n)) for n in names) + "</tr>" for r in rows[:LINES])
        more = f"<p>… {len(rows) - LINES} more rows in .rows</p>" if len(rows) > LINES else ""
        figures = ", ".join(f"{escape(k)} {escape(v)}" for k, v in _figure_texts(self.figures).items())
        listed = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
        return f"<p><b>{escape(self.title)}</b></p><p>{figures}</p>{listed}{more}"


def _figure_texts(figures: Mapping[str, Any]) -> dict[str, str]:
    shown = {k: v for k, v in figures.items() if v not in (None, {}, [], ()) and not (k in HIDDEN and _is_long(v))}
    return {k.replace("_", " "): cell(v) for k, v in shown.items()}


def _is_long(value: Any) -> bool:
    return isinstance(value, str | list | tuple)


def _short(value: Any) -> Any:
    """Numbers unchanged, other values as text of at most WIDTH characters."""
    if value is None or isinstance(value, int | float):
        return value
    text = cell(value)
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"


def _td(value: Any) -> str:
    right = isinstance(value, int | float) and not isinstance(value, bool)
    return f'<td style="text-align:{"right" if right else "left"}">{escape(str(_short(cell(value))))}</td>'


@dataclass(frozen=True, slots=True, repr=False)
class Report(Table):
    """Result of an analysis: a table and summary figures.

    Figures are attributes and keys alike: `report.accuracy` is `report["accuracy"]`. `seconds` is how long it took.

    Example:
        score = m.score("demo:digits")
        print(score.accuracy, score.n, score.rows)
    """

    name: str
    summary: Mapping[str, Any] = field(default_factory=dict[str, Any])
    table: tuple[Row, ...] = ()
    seconds: float = 0.0

    @property
    def title(self) -> str:
        """The analysis."""
        return f"{self.name} ({self.seconds:.2f} s)" if self.seconds else self.name

    @property
    def figures(self) -> Mapping[str, Any]:
        """Name → figure, read-only."""
        return MappingProxyType(dict(self.summary))

    @property
    def rows(self) -> list[Row]:
        """The table as a list of dicts, one key a column."""
        return copy.deepcopy(list(self.table))

    def __getitem__(self, figure: str) -> Any:
        if figure not in self.summary:
            raise UnknownNameError(f"{self.name} has no figure {figure!r}.", nearest(figure, self.summary))
        return self.summary[figure]

    def __getattr__(self, figure: str) -> Any:
        if figure.startswith("_") or figure in ("summary", "name"):  # accessed by copies before initialisation
            raise AttributeError(figure)
        return self[figure]


@dataclass(frozen=True, slots=True, repr=False)
class Steps(Table):
    """A recipe: steps applied, or to apply, to a model.

    Example:
        recipe = m.recipe
        other.apply(recipe)
        print(recipe.to_toml())
    """

    recipe: Recipe = field(default=Recipe())
    from_opened: bool = False  # complete recipe; `apply` replaces the present one

    @property
    def title(self) -> str:
        """Number of steps as text."""
        return f"recipe of {len(self)} step{'' if len(self) == 1 else 's'}"

    @property
    def rows(self) -> list[Row]:
        """A row a step: its number from 1, pass, options, seed, and whether it is on."""
        listed: Sequence[Mapping[str, Any]] = recipe_to_dict(self.recipe)["steps"]
        return [{"step": i, "pass": s["pass"], "options": s["options"], "seed": s["seed"],
                 "enabled": s.get("enabled", True)} for i, s in enumerate(listed, 1)]  # fmt: skip

    def __len__(self) -> int:
        return len(self.recipe)

    def to_dict(self) -> dict[str, Any]:
        """`{"steps": [{"pass": …, "options": …, "seed": …}]}`, as JSON recipes have it."""
        return recipe_to_dict(self.recipe)

    def to_toml(self) -> str:
        """The text of a recipe file for `espalier run`."""
        return to_toml(recipe_to_dict(self.recipe))


@dataclass(frozen=True, slots=True, repr=False)
class Allocation(Report):
    """Formats and sparsities that keep a budget; `recipe` are the steps that apply them.

    A row is a port of a layer with the format it takes. Figures: `predicted` (KL divergence from the baseline in nats
    a sample), the costs of the whole (`weight_bits`, `size_bytes` …), `gap` (how far from the least it may be).
    """

    recipe: Steps = field(default=Steps())


@dataclass(frozen=True, slots=True, repr=False)
class Study(Report):
    """A search that has ended: a row a trial, `front` the rows of the Pareto front, `recipe` the best trial's steps.

    `recipe` has no steps where no trial is feasible. `source` names the best trial's model where trials build models
    of their own (`es.open(study.source)`).
    """

    recipe: Steps = field(default=Steps())
    front: tuple[Row, ...] = ()
    recipes: Mapping[int, Steps] = field(default_factory=dict[int, Steps])
    source: str = ""

    def recipe_of(self, trial: int) -> Steps:
        """The steps of a trial by its number.

        Raises:
            OptionsError: no trial has this number.
        """
        if trial not in self.recipes:
            raise OptionsError(f"There is no trial {trial}.", nearest(str(trial), map(str, self.recipes)))
        return self.recipes[trial]


@dataclass(frozen=True, slots=True, repr=False)
class Curve(Report):
    """A sweep that has ended: a row a point; `means` has a row for each value and variant, over the seeds."""

    means: tuple[Row, ...] = ()
