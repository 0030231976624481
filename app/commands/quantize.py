"""Command `quantize`: a preset of formats by its name, with the score before and after."""

from __future__ import annotations

from espalier.app.commands.command import Answer, Arguments, Command, Parser
from espalier.app.commands.console import Console
from espalier.app.commands.option_flags import add_options, read_options
from espalier.app.commands.run import replayed_answer
from espalier.app.commands.scoring import add_data
from espalier.model.document.recipe import Recipe, Step
from espalier.passes.choices.presets import PRESETS, QuantizePresetOptions, preset_named

NOT_FLAGS = ("preset", "select")
DETAILS = "presets:\n" + "\n".join(f"  {name:14} {p.scheme:11} {p.about}" for name, p in PRESETS.items())


def _arguments(parser: Parser) -> None:
    parser.add_argument("target", metavar="SOURCE|PROJECT", help="the model; a project's own steps come first")
    parser.add_argument("--preset", required=True, metavar="NAME", type=preset_named,
                        help="a preset below, or a scheme of compressed-tensors such as W4A16")  # fmt: skip
    add_options(parser, QuantizePresetOptions, skip=NOT_FLAGS)
    parser.add_argument("-o", "--output", metavar="P.espalier", help="save the result as a project")
    add_data(parser)
    parser.set_defaults(recipe="", seeds=1, curves=None, compare=[], inset=False)


def _run(args: Arguments, console: Console) -> Answer:
    options = read_options(QuantizePresetOptions, args)
    return replayed_answer(args, Recipe((Step("quantize_preset", options, args.seed),)), console)


COMMAND = Command(
    "quantize", "quantises a model by a preset such as w4a16_g128 or fp8_dynamic", _arguments, _run, DETAILS
)
