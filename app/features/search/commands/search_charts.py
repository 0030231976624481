"""Charts of a search, alone or with other studies, as SVG or PNG."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.app.commands.command import Arguments, Parser, UsageError
from espalier.model.document.project import recipe_to_json
from espalier.model.document.recipe import Recipe
from espalier.model.errors import nearest
from espalier.model.leftovers import scratch
from espalier.passes.figure import main_figure
from espalier.passes.score import Score
from espalier.passes.search.goals import figures
from espalier.passes.search.search import Search
from espalier.passes.search.space import Space
from espalier.passes.search.spec import SearchSpec, trains
from espalier.passes.search.trial import Trial

if TYPE_CHECKING:
    from espalier.app.figures.curves import Drawing
    from espalier.app.figures.study.data import Study
    from espalier.app.figures.trials import Group

CHARTS = ("history", "pareto", "importance", "precision", "intermediate", "loss")
BY_STEP = ("intermediate", "loss")
PICTURES = (".svg", ".png")


def add_charts(parser: Parser) -> None:
    """Add the options of charts."""
    parser.add_argument("--chart", choices=CHARTS, help="what -o F.svg or F.png shows: the best so far by trial "
                        "(default), the Pareto front, the importance of choices, formats by trial, the first goal "
                        "on the way of each trial, or the training loss by step of trials that train")  # fmt: skip
    parser.add_argument("--figure", metavar="NAME[,NAME]", default="",
                        help="of the chart (default: the goals; of a front up, then across)")  # fmt: skip
    parser.add_argument("--compare", metavar="FILE[#STUDY]", action="append", default=[],
                        help="also draw a study of a project or journal; those that differ in seed, name or number of "
                        "trials alone are drawn as their mean")  # fmt: skip
    parser.add_argument("--inset", action="store_true", help="in a history or by step, the later half again, enlarged")


def check_charts(arguments: Arguments) -> None:
    """Raise UsageError for chart options without a chart, and for impossible combinations."""
    picture = Path(arguments.output or "").suffix.lower() in PICTURES
    if not picture and (arguments.chart or arguments.figure or arguments.compare or arguments.inset):
        raise UsageError("--chart, --figure, --compare and --inset are for a picture.", "Add -o F.svg or -o F.png.")
    if arguments.compare and arguments.chart in ("importance", "precision"):
        raise UsageError(f"The chart {arguments.chart} shows one study.", "Leave out --compare.")
    if arguments.figure and arguments.chart in BY_STEP:
        raise UsageError(f"The chart {arguments.chart} has its own figure.", "Leave out --figure.")
    if arguments.inset and arguments.chart not in (None, "history", *BY_STEP):
        raise UsageError(f"The chart {arguments.chart} has no inset.", "Leave out --inset.")


class Picture:
    """The chart of the command line. Compared studies are read first, so that errors occur before the trials."""

    def __init__(self, arguments: Arguments, search: Search) -> None:
        self.found, self.search = arguments, search
        self.asked = [n for n in arguments.figure.split(",") if n]
        _check_figures(self.asked)
        self.others = [o for text in arguments.compare for o in _read(text)]
        self.base: Mapping[str, Any] = {}
        self.named = ""

    def draw(self, path: Path, trials: Sequence[Trial], space: Space) -> None:
        """Write the chart; raises UsageError."""
        from espalier.app.figures.curves import write

        study = study_of(self.search.spec, self.search.recipe, space, trials)
        study.baseline = {k: float(v) for k, v in self.base.items() if isinstance(v, int | float)}
        study.named, study.sampled = self.named or study.named, study.sampled or main_figure(self.base)
        write(path, self._sheet(study), UsageError)

    def _sheet(self, study: Study) -> Drawing:
        from espalier.app.figures.choices import importance, precision
        from espalier.app.figures.step_charts import losses, on_the_way
        from espalier.app.figures.trials import history, pareto
        from espalier.model.document.graph_json import fingerprint

        mine = Known(
            self.search.spec, _kind(self.search.spec, self.search.recipe, fingerprint(self.search.base)), study
        )
        groups = _groups([mine, *self.others])
        names = self._figures(study)
        charts: dict[str, Callable[[], Drawing]] = {
            "history": lambda: history(groups, names[0], inset=self.found.inset),
            "pareto": lambda: pareto(groups, names[1], names[0]),
            "importance": lambda: importance(study, names[0]),
            "precision": lambda: precision(study, names[0]),
            "intermediate": lambda: on_the_way(groups, inset=self.found.inset),
            "loss": lambda: losses(groups, inset=self.found.inset),
        }
        return charts[self.found.chart or "history"]()

    def _figures(self, study: Study) -> list[str]:
        """At least two metrics: the requested ones, or the goals, with a cost added to a single goal."""
        for name in self.asked:
            if name not in study.names:
                raise UsageError(f"The trials have no figure {name!r}.", nearest(name, study.names))
        goals = [g.figure for g in study.goals]
        costs = [n for n in ("weight_bits", "size_bytes") if n in study.names]
        return list(dict.fromkeys([*self.asked, *goals, *costs, *study.names, "accuracy", "weight_bits"]))


def _check_figures(names: Sequence[str]) -> None:
    """Raise UsageError for a metric that no trial can have."""
    score = [f.name for f in fields(Score)]
    trained = [f"{name}_{when}" for name in ("accuracy", "loss", "kept_step") for when in ("before", "compressed")]
    metrics = list(dict.fromkeys([*figures(), *score, *trained, "kept_step"]))
    for name in names:
        if name not in metrics:
            raise UsageError(f"There is no figure {name!r}.", nearest(name, metrics))


def study_of(spec: SearchSpec, recipe: Recipe, space: Space, trials: Sequence[Trial]) -> Study:
    """A study in the form of the charts."""
    from espalier.app.figures.study.data import Study

    counted = "steps" if trains(spec, recipe) else "samples"
    return Study(trials, spec.goals, space.choices, within=spec.within, counted=counted)


@dataclass(frozen=True, slots=True)
class Known:
    """A study with its search; studies of one `kind` have equal searches on the same model."""

    spec: SearchSpec
    kind: str
    study: Study


def _kind(spec: SearchSpec, recipe: Recipe, model: str) -> str:
    """A key that is equal for searches that only differ in seed, name and number of trials. `model`: its
    fingerprint."""
    steps = recipe_to_json(Recipe(tuple(replace(s, seed=0) for s in recipe.steps)))
    return f"{model} {json.dumps(steps, sort_keys=True)} {replace(spec, study='', seed=0, trials=0)!r}"


def _groups(studies: Sequence[Known]) -> list[Group]:
    """Groups of studies of one kind, named by the sampler if that distinguishes them."""
    from espalier.app.figures.trials import Group

    by_kind: dict[str, list[Known]] = {}
    for study in studies:
        by_kind.setdefault(study.kind, []).append(study)
    samplers = [members[0].spec.sampler for members in by_kind.values()]
    is_distinct = len(set(samplers)) == len(samplers)
    labels = [m[0].spec.sampler if is_distinct else m[0].spec.study for m in by_kind.values()]
    return [Group(label, tuple(k.study for k in m)) for label, m in zip(labels, by_kind.values(), strict=True)]


def _read(text: str) -> list[Known]:
    """The studies of a project or a journal, or the one named after a #."""
    from espalier.passes.search.project_studies import FOLDER, unpack
    from espalier.passes.search.records import ABOUT, search_of, trials_of
    from espalier.passes.search.storage import journal_url, load_study, open_storage, study_names

    name, _, wish = text.partition("#")
    path = Path(name)
    if not path.is_file():
        raise UsageError(f"There is no file {name!r} to compare with.", "Give a project or a journal.")
    with scratch() as folder:
        files = list(unpack(_members(path, FOLDER), Path(folder)).values()) if path.suffix == ".espalier" else [path]
        studies = [(n, s) for f in files for s in [open_storage(journal_url(f))] for n in study_names(s)]
        names = [n for n, _ in studies]
        if not names or (wish and wish not in names):
            raise UsageError(f"{path.name} holds no study {wish!r}." if wish else f"{path.name} holds no study.",
                             nearest(wish, names) if wish else "Give a project or a journal of a search.")  # fmt: skip
        found: list[Known] = []
        for study_name, storage in studies:
            if wish in ("", study_name):
                study = load_study(storage, study_name)
                spec, recipe, space = search_of(study)
                kind = _kind(spec, recipe, str(study.user_attrs[ABOUT].get("model", "")))
                study_drawn = study_of(replace(spec, study=study_name), recipe, space, trials_of(study))
                found.append(Known(replace(spec, study=study_name), kind, study_drawn))
    return found


def _members(path: Path, folder: str) -> dict[str, bytes]:
    from espalier.model.borders import opened_zip, read_member, reading
    from espalier.model.document.project import MOST_OWN

    guard = reading(path, UsageError, "is not a readable project", "Give a project or a journal.")
    with guard, opened_zip(path) as (archive, _):
        return {n: read_member(archive, n, MOST_OWN) for n in archive.namelist() if n.startswith(folder)}
