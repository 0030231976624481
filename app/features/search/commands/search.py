"""`search`: runs a study; every trial is stored before the next one starts, and the best so far is written."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, get_args

from espalier.app.commands.command import Answer, Arguments, Command, Parser, UsageError
from espalier.app.commands.console import Console, cell, seconds, table
from espalier.app.commands.interrupts import ToldInterrupt, interruptible
from espalier.app.commands.known_steps import known_steps
from espalier.app.commands.opening import Target, opened
from espalier.app.commands.option_flags import over
from espalier.app.commands.scoring import add_data, bit_lines, plain, score, state_name
from espalier.app.features.search.commands.search_charts import Picture, add_charts, check_charts
from espalier.app.features.search.commands.search_files import KINDS, Output, spec_path, storage_for, templates
from espalier.app.features.search.commands.search_workers import add_workers, check_workers, trials_of_all
from espalier.app.features.search.commands.storages import look_into
from espalier.app.figures.curves import figure_title
from espalier.app.number_text import THIN, change_text, left, noise_text, plural, time_text, training_text
from espalier.model.document.recipe import Recipe
from espalier.model.document.selections import selections_of
from espalier.model.private import redacted
from espalier.passes.costs.base import COSTS, timed_beside
from espalier.passes.figure import OPENED, change_of, main_figure
from espalier.passes.recipes.config import recipe_to_dict
from espalier.passes.recipes.set_up import texts_of
from espalier.passes.running.data_fit import truncation_note
from espalier.passes.saved import recipe_with_members, with_members
from espalier.passes.search.goals import Wanted, best, front, main_of, wanted, with_main
from espalier.passes.search.search import Search
from espalier.passes.search.space import Space
from espalier.passes.search.spec import ExportTarget, SearchSpec
from espalier.passes.search.spec_file import filled, load_search
from espalier.passes.search.trial import Trial

if TYPE_CHECKING:
    from espalier.passes.search.study import StudyRun

LONG = 60.0  # remaining seconds from which they are printed

DETAILS = """examples
  main.py search demo:reviews mixed-precision -o best.espalier
  main.py search P.espalier spec.toml --trials 200 --storage journal:///tmp/study.journal --resume
  main.py search demo:reviews samplers.toml --study grid -o grid.svg
  main.py search demo:reviews samplers.toml --study tpe -o tpe.svg --compare grid.svg.journal --inset
SPEC is a TOML or JSON file, or the name of a template: {templates}.
Keys: study, goals, within, sampler, pruner, trials, timeout, patience, seed, warm, rungs, target, train, finetune,
score, [[space]] entries (kind, select, ports, values or low and high, key, method, per, when), and [[steps]] or recipe
that every trial begins with. Ctrl-C keeps all that has ended; --resume goes on from there."""


def _arguments(parser: Parser) -> None:
    parser.add_argument("target", metavar="SOURCE|PROJECT", help="the model")
    parser.add_argument("spec", metavar="SPEC", help="a TOML or JSON file, or a template's name")
    parser.add_argument("--trials", type=int, metavar="N", help="so many in all, those of earlier runs included")
    parser.add_argument(
        "--storage", metavar="URL", help="journal:///F, sqlite:///F, postgresql://… or grpc://host:port"
    )
    parser.add_argument("--study", metavar="NAME", help="its name in the storage (default: the spec's)")
    add_workers(parser)
    parser.add_argument("--export-target", choices=get_args(ExportTarget)[1:],
                        help="only formats that this target of export holds")  # fmt: skip
    parser.add_argument("--baseline", choices=(OPENED, "start", "none"), default=OPENED,
                        help="what the best is compared with (default: the model as opened)")  # fmt: skip
    parser.add_argument("--resume", action="store_true", help="resume the study of that name")
    parser.add_argument("-o", "--output", metavar="FILE", help=f"{', '.join(KINDS)}: the best, all trials, or a chart")
    add_charts(parser)
    add_data(parser)


@dataclass(slots=True)
class _Done:
    """The state of the search."""

    search: Search
    want: Wanted
    space: Space = field(default=Space())
    trials: dict[int, Trial] = field(default_factory=dict[int, Trial])
    ended: str = ""
    seconds: float = 0.0
    begun: float = 0.0
    paced: float = 0.0  # start of the first trial; earlier work, such as gradients, happens once
    earlier: int = 0  # trials of earlier runs
    against: str = ""  # the name of the baseline
    base: dict[str, Any] = field(default_factory=dict[str, Any])  # its score

    @property
    def all(self) -> list[Trial]:
        return [self.trials[n] for n in sorted(self.trials)]

    @property
    def best(self) -> Trial | None:
        return best(self.all, self.want)

    def start_of(self, trial: Trial) -> float:
        """When an ended trial began, in this run: the seconds of one that an earlier run left include the pause."""
        return max(time.perf_counter() - (trial.seconds or 0.0), self.begun)

    def recipe(self, trial: Trial) -> Recipe:
        """The recipe that was measured as a trial."""
        return self.search.recipe_of(self.space, trial.params, trial.begins)


def _run(arguments: Arguments, console: Console) -> Answer:
    check_workers(arguments)
    check_charts(arguments)
    recipe, spec = load_search(spec_path(arguments.spec), arguments.seed)
    spec = _asked(spec, arguments)
    if arguments.storage:
        look_into(arguments.storage, spec.study, arguments.resume, console)
    with opened(arguments.target, arguments, console) as target:
        search = _search(spec, recipe, target, arguments)
        picture = Picture(arguments, search)
        output = Output(arguments.output, target, search, picture)
        storage = storage_for(arguments.storage, output, target)
        done = _searched(search, target, storage.url, output, arguments, console)
        done.against, done.base = picture.named, picture.base = _baseline(done, target, arguments)
        data = _data(done, storage.shown) | texts_of(search.spec.score, search.base, target.context)
        if arguments.output:
            data["output"] = output.finish(done.all, _best_recipe(done), storage)
            if storage.path is not None and not storage.path.exists():  # the project contains the journal
                data["storage"] = data["output"]
    return Answer(data, lambda: _lines(done, data))


def _asked(spec: SearchSpec, arguments: Arguments) -> SearchSpec:
    """The spec with the options of the command line; raises UsageError."""
    overrides: dict[str, Any] = {"trials": arguments.trials, "study": arguments.study, "seed": arguments.seed or None,
                                 "target": arguments.export_target}  # fmt: skip
    spec = replace(spec, **{k: v for k, v in overrides.items() if v is not None})
    if not 1 <= spec.trials <= 100_000:
        raise UsageError(f"--trials is {spec.trials}.", "It must be a whole number from 1 to 100000.")
    return spec


def _search(spec: SearchSpec, recipe: Recipe, target: Target, arguments: Arguments) -> Search:
    """The search on the project's own recipe, with the data that flags, the file or the source name."""
    data = arguments.data or spec.score.data or target.project.source.data
    own = target.project.recipe
    spec = replace(spec, score=over(spec.score, arguments, data=data or ""))
    saved = selections_of(target.project)
    steps = (*own.steps, *recipe_with_members(filled(recipe, spec.score), saved).steps)
    spec = with_main(spec, main_of(spec.score, target.context.reading))
    return Search(with_members(spec, saved), Recipe(steps), target.project.base, target.project.source)


def _baseline(done: _Done, target: Target, arguments: Arguments) -> tuple[str, dict[str, Any]]:
    """(name, score) of the baseline on the trials' data; the score is empty if it is not measured."""
    spec, project = done.search.spec, target.project
    start = arguments.baseline == "start"
    graph = project.graph if start else project.base
    missing = any(w.key is None for w in graph.weights.values())
    if arguments.baseline == "none" or missing or not spec.score.data or not done.want.measured:
        return "", {}
    return state_name(target) if start else OPENED, score(graph, target, spec.score)


def _best_recipe(done: _Done) -> Recipe | None:
    trial = done.best
    return None if trial is None else done.recipe(trial)


def _searched(
    search: Search, target: Target, storage: str, output: Output, arguments: Arguments, console: Console
) -> _Done:
    """Run the search; prints ended trials and writes the best at once."""
    from espalier.passes.search.study import Plan, begin

    done, start = _Done(search, wanted(search.spec)), time.perf_counter()
    running = begin(Plan(search, target.context, storage, arguments.resume, memo=known_steps(target)))
    done.space, done.trials, done.earlier = running.space, dict(running.records), running.done
    done.begun = time.perf_counter()
    if arguments.resume and not done.trials:
        console.note(f"{redacted(storage)} holds no trials of {search.spec.study!r}: the study starts again.")
    output.space = running.space
    try:
        with (
            interruptible(),
            contextlib.closing(trials_of_all(running, storage, arguments, target, console)) as trials,
        ):
            _followed(trials, running, done, output, console)
        done.ended = running.why
        done.trials = running.records | done.trials  # received trials are newer than the storage after an outage
    except KeyboardInterrupt:
        ended = sum(t.ended for t in done.all)
        output.write(done.all, _best_recipe(done))
        message = f"Stopped after {ended} trials, kept in {redacted(storage)}; run the same with --resume to continue."
        console.note(message)
        raise ToldInterrupt(message) from None
    done.seconds = time.perf_counter() - start
    return done


def _followed(
    trials: Iterable[Trial], running: StudyRun, done: _Done, output: Output, console: Console
) -> None:  # fmt: skip
    """Follow all trials."""
    for trial in trials:
        before = done.best
        done.trials[trial.number] = trial
        if trial.state in ("complete", "pruned", "failed"):
            done.paced = done.paced or done.start_of(trial)
            console.note(_told(done, trial))
        if done.best is not before:
            output.better(done.all, _best_recipe(done), running)


def _told(done: _Done, trial: Trial) -> str:
    """A line such as `[12/50] accuracy 0.9310, weight bits 4.31, 1.2 s`, with a note for the best so far."""
    ended = sum(t.ended for t in done.all)
    head = f"[{ended}/{done.search.spec.trials}]"
    if trial.state == "failed":
        return f"{head} trial {trial.number} {'lost' if trial.lost else 'failed'}: {trial.error}"
    figures = ", ".join(f"{n.replace('_', ' ')} {_figure(n, trial.figures[n])}" for n in done.want.figures
                        if n in trial.figures)  # fmt: skip
    notes = [seconds(trial.seconds or 0.0)]
    notes += ["duplicate"] if trial.reused else []
    notes += [trial.error] if trial.state == "pruned" else []
    notes += ["not feasible"] if trial.state == "complete" and not trial.feasible else []
    notes += [training_text(trial.figures)]
    notes += ["the best so far"] if done.best is trial else []
    notes += [_left(done, ended)]
    notes += [busy] if not trial.reused and (busy := timed_beside(trial.figures)) else []
    return f"{head} {', '.join(filter(None, (figures, *notes)))}"


def _left(done: _Done, ended: int) -> str:
    """The remaining time at the present pace, limited by the timeout; empty if it is short."""
    here, spec = ended - done.earlier, done.search.spec
    time_now = time.perf_counter()
    rest = (time_now - done.paced) / max(here, 1) * max(spec.trials - ended, 0)
    rest = min(rest, max(spec.timeout - (time_now - done.begun), 0.0)) if spec.timeout else rest
    return f"about {left(rest).replace(THIN, ' ')}" if here > 0 and rest > LONG else ""


def _figure(name: str, value: float) -> str:
    """A metric as text, times in a fitting unit."""
    return cell(_cell(name, value))


def _cell(name: str, value: float | None) -> float | str | None:
    """A metric in a table."""
    return value if value is None or name not in COSTS or COSTS.get(name).unit != "s" else time_text(value)


# -- the answer


def _data(done: _Done, storage: str) -> dict[str, Any]:
    lead, trials = done.best, done.all
    states = {s: sum(t.state == s and not t.lost for t in trials) for s in ("complete", "pruned", "failed")}
    states["lost"] = sum(t.lost for t in trials)
    states["unmeasured"] = sum(t.unmeasured for t in trials)
    return {
        "study": done.search.spec.study, "best": _row(done, lead) if lead else None,
        "recipe": recipe_to_dict(done.recipe(lead)) if lead else None, **_source(done, lead),
        "front": [_row(done, t) for t in front(trials, done.want)],
        "trials": [_row(done, t) for t in trials], **states, "reused": sum(t.reused for t in trials),
        "baseline": done.against or None, "baseline_score": plain(done.base) or None,
        "choices": len(done.space.choices), "configurations": done.space.configurations(), "ended": done.ended,
        "seconds": round(done.seconds, 3), "storage": storage,
    }  # fmt: skip


def _source(done: _Done, lead: Trial | None) -> dict[str, str]:
    """The source of the best trial if it has another architecture."""
    from espalier.passes.search.architecture.trial_project import configured, source_of

    if lead is None or not configured(done.space, lead.params):
        return {}
    return {"source": source_of(done.search, done.space, lead.params)}


def _row(done: _Done, trial: Trial) -> dict[str, Any]:
    names = ["sum"] if done.want.summed else [g.figure for g in done.want.goals]
    return {
        "number": trial.number, "state": trial.state, "values": dict(zip(names, trial.values, strict=False)),
        "params": trial.params, "figures": trial.figures, "feasible": trial.feasible, "violation": trial.violation,
        "steps": [list(s) for s in trial.steps], "seconds": trial.seconds, "origin": trial.origin, "lost": trial.lost,
        "reused": trial.reused, "worker": trial.worker, "error": trial.error, **trial.bits,
        **_noise(done, trial),
    }  # fmt: skip


def _noise(done: _Done, trial: Trial) -> dict[str, Any]:
    """n and interval of a trial's main metric, and its change from the baseline's."""
    if (main := trial.main) is None:
        return {}
    before = main_figure(done.base)
    change = {"change": {main.name: main.against(before, done.against).to_json()}} if before else {}
    return {"n": main.n, "interval": list(main.interval), "guessing": main.guessing, **change}


def _lines(done: _Done, data: dict[str, Any]) -> Iterable[str]:
    lead = done.best
    if lead is None:
        yield "No trial meets the constraints." if data["complete"] or data["pruned"] else "No trial was completed."
    else:
        yield f"best: trial {lead.number}"
        yield from table([{"choice": k, "value": str(v)} for k, v in lead.params.items()])
    if "source" in data:
        yield f"a model of its own: {data['source']}"
    rows = data["front"] if len(data["front"]) > 1 else data["front"][:1]
    names = [*done.want.figures, *(["kept_step"] if any("kept_step" in r["figures"] for r in rows) else [])]
    if rows:
        yield "front" if len(rows) > 1 else "figures"
        yield from table([{"trial": r["number"], **{n: _cell(n, r["figures"].get(n)) for n in names}} for r in rows])
    yield from bit_lines(lead.bits, " of the best") if lead else []
    if lead is not None and lead.main:
        change, name = _noise(done, lead).get("change", {}).get(lead.main.name), figure_title(lead.main.name)
        yield f"{name} of the best: {noise_text(lead.main)}"
        yield from [f"{name} of the best: {change_text(change_of(change))}"] if change else []
    outside = f"{data['unmeasured']} not measured, " if data["unmeasured"] else ""
    early = sum(t.state == "pruned" and t.counts for t in done.all)
    twice = sum(t.reused and not t.unmeasured for t in done.all)
    complete = sum(t.state == "complete" and not t.reused for t in done.all)
    yield from [f"texts: {note}"] if (note := truncation_note(data)) else []
    outside += f"{plural(twice, 'duplicate')}, " if twice else ""
    counts = f"{complete} complete, {outside}{early} ended early, {data['failed']} failed"
    counts += f", {data['lost']} lost" if data["lost"] else ""
    yield f"{counts}; {data['ended']}; {seconds(data['seconds'])}"
    yield f"study {data['study']!r} in {data['storage']}"
    if "output" in data:
        yield f"written to {data['output']}"


ABOUT = "searches formats, sparsities and options for the best trade-off"
COMMAND = Command("search", ABOUT, _arguments, _run, DETAILS.format(templates=", ".join(templates())))
