"""`evaluate`: the score of a model on data."""

from __future__ import annotations

from app.commands.command import Answer, Arguments, Command, Parser
from app.commands.console import Console, facts
from app.commands.opening import opened
from app.commands.scoring import add_data, data_options, figures, score, tell_warning
from model.errors import DataError


def _arguments(parser: Parser) -> None:
    parser.add_argument("target", metavar="SOURCE|PROJECT", help="the model")
    add_data(parser)


def _run(found: Arguments, console: Console) -> Answer:
    with opened(found.target, found, console) as target:
        options = data_options(found, target)
        if options is None:
            raise DataError("There is no data to measure on.", "Give --data demo:NAME, hub:NAME, a file or a folder.")
        data = score(target.project.graph, target, options)
    tell_warning(data, console)
    return Answer(data, lambda: facts(figures(data)))


COMMAND = Command("evaluate", "measures a model's score on data", _arguments, _run)
