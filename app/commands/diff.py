"""`diff`: what differs between two models, or two states of projects."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from espalier.app.commands.command import Answer, Arguments, Command, Parser, UsageError
from espalier.app.commands.console import Console
from espalier.app.commands.diff_costs import with_costs
from espalier.app.commands.diff_files import WRITERS, Writer, drawing, lines, to_html, writer_for
from espalier.app.commands.opening import Target, opened
from espalier.app.commands.scoring import add_data, data_options, print_warning, score
from espalier.app.commands.states import NamedState, StateName, measured, parse_state, state_of, stored_score
from espalier.app.figures.difference import StateComparison, compared
from espalier.model.document.arrangement import arrangement_of
from espalier.model.errors import EspalierError
from espalier.model.files import write_text
from espalier.passes.base import Cancelled
from espalier.passes.comparison.scores import Measured
from espalier.passes.running.splits import EvaluateOptions

FILES: dict[str, Writer] = {**{suffix: WRITERS[suffix] for suffix in (".csv", ".html", ".json")}, ".svg": drawing}
DETAILS = """\
A and B are projects, packed models or sources, as other commands take them; of a project also PROJECT@N (after its
first N active steps), PROJECT@opened, and PROJECT#STUDY/TRIAL. Nodes are the same where their ids are; in models of
different files where their weights, module paths or surroundings are. Equal changes of twins are one row.
-o FILE.svg draws the graph of B: added nodes are outlined in green, changed ones in orange. With --data both are
measured on the same samples, and their accuracies compared by McNemar's test. Each row then says what it costs alone:
the KL divergence of A's outputs with that row of B from A's, in nats; --no-kl leaves it out. The exit code is 0 also
where something differs; with --exit-code it is 1 then.
examples
  main.py diff P.espalier@opened P.espalier --data demo:reviews
  main.py diff google/bert P.espalier --html difference.html
  main.py diff P.espalier P.espalier#mixed/12 -o difference.svg"""


def _arguments(parser: Parser) -> None:
    parser.add_argument("a", metavar="A", help="the first model, project or state")
    parser.add_argument("b", metavar="B", help="the second one")
    for side in ("a", "b"):
        parser.add_argument(f"--step-{side}", type=int, metavar="N",
                            help=f"compare {side.upper()} after its first N active steps; 0: as opened")  # fmt: skip
    parser.add_argument("-o", "--output", metavar="FILE", help="write a .csv, .html, .json or .svg file")
    parser.add_argument("--html", metavar="FILE", help="write a page with scores, changes and both graphs")
    parser.add_argument("--exit-code", action="store_true", help="exit with 1 where something differs")
    parser.add_argument("--no-kl", action="store_true", help="do not measure what each row costs alone")
    add_data(parser)


def _run(args: Arguments, console: Console) -> Answer:
    writer = writer_for(Path(args.output), FILES, UsageError) if args.output else None
    names = parse_state(args.a, args.step_a), parse_state(args.b, args.step_b)
    with ExitStack() as stack:
        targets = [stack.enter_context(opened(n.source, args, console)) for n in names]
        states = [state_of(n, t) for n, t in zip(names, targets, strict=True)]
        sides = [_measured(s, t, args, console) for s, t in zip(states, targets, strict=True)]
        console.progress(0, 0, "comparing")
        found = compared(states[0].graph, states[1].graph, (targets[0].store, targets[1].store), _titles(*names),
                         (sides[0], sides[1]))  # fmt: skip
        found = replace(found, arrangements=(arrangement_of(targets[0].project), arrangement_of(targets[1].project)))
        options = data_options(args, targets[0]) if args.data is not None and not args.no_kl else None
        if options is not None:
            found = _with_costs(found, options, targets, console)
    data = found.to_dict()
    for path, write in ((args.output, writer), (args.html, to_html)):
        if path and write:
            write_text(path, write(found), UsageError)
            data.setdefault("written", []).append(path)
    return Answer(data, lambda: _lines(found, data), int(bool(found) and args.exit_code))


def _titles(a: StateName, b: StateName) -> tuple[str, str]:
    """Names that differ."""
    return (a.title, b.title) if a.title != b.title else (a.source, b.source)


def _measured(state: NamedState, target: Target, args: Arguments, console: Console) -> Measured:
    """The score on --data; without that, the one that the project stores for this state, or costs alone."""
    if args.data is None:
        return stored_score(state, target.project)
    figures = score(state.graph, target, data_options(args, target))
    print_warning(figures, console)
    if "uncounted" in figures:
        console.note(str(figures["uncounted"]))
    return measured(figures)


def _with_costs(
    found: StateComparison, options: EvaluateOptions, targets: list[Target], console: Console
) -> StateComparison:  # fmt: skip
    """With what each row costs alone; without, and a note, where the outputs of A cannot be compared."""
    try:
        return with_costs(found, options, targets[0], targets[1].store)
    except Cancelled:
        raise
    except EspalierError as error:
        console.note(f"What each row costs alone is not measured. {error.message} {error.hint}".strip())
        return found


def _lines(found: StateComparison, data: dict[str, Any]) -> list[str]:
    return [*lines(found), *(f"written to {path}" for path in data.get("written", ()))]


COMMAND = Command("diff", "shows what differs between two models, or two states of projects", _arguments, _run, DETAILS)
