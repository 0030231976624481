"""Command `kv-cache`: quantises the key/value cache of a language model, with its bytes and the score."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from espalier.app.commands.command import Answer, Arguments, Command, Parser
from espalier.app.commands.console import Console, size, table
from espalier.app.commands.option_flags import add_options, read_options
from espalier.app.commands.run import replayed_answer
from espalier.app.commands.scoring import add_data
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import OptionsError
from espalier.model.formats.scaled import ScaledFormat
from espalier.passes.choices.kv_cache import KVCacheOptions
from espalier.passes.transform.calibrate import CalibrateOptions

STATIC = ("tensor", "static_head", "channel")


def _arguments(parser: Parser) -> None:
    parser.add_argument("target", metavar="SOURCE|PROJECT", help="the model; a project's own steps come first")
    add_options(parser, KVCacheOptions, skip=("select",))
    parser.add_argument("--calibrate-on", metavar="DATA", default="",
                        help="data for static scales (tensor, static_head, channel), such as demo:stories")  # fmt: skip
    parser.add_argument("-o", "--output", metavar="P.espalier", help="save the result as a project")
    add_data(parser)
    parser.set_defaults(recipe="", seeds=1, curves=None, compare=[], inset=False)


def _run(args: Arguments, console: Console) -> Answer:
    options = read_options(KVCacheOptions, args)
    if not args.calibrate_on and (scales := _static(options)):
        raise OptionsError(
            f"Scales by {scales} are static: they are fitted to data, and none is given.",
            "Give --calibrate-on DATA, such as demo:stories, or choose head, token or group.",
        )
    steps = [Step("kv_cache", options, args.seed)]
    if args.calibrate_on:
        from espalier.passes.select import Select

        select = Select("type", ("kv_cache",))
        steps.append(Step("calibrate", CalibrateOptions(data=args.calibrate_on, select=select), args.seed))
    answer = replayed_answer(args, Recipe(tuple(steps)), console)
    return Answer(answer.data, lambda: [*answer.lines(), *_lines(answer.data)])


def _static(options: KVCacheOptions) -> str:
    """What shares a scale that has to be calibrated; empty if nothing does."""
    scales = {"key": options.key_scales, "value": options.value_scales}
    return next((s for part, s in scales.items() if s in STATIC and isinstance(options.of(part)[0], ScaledFormat)), "")


def _lines(data: dict[str, Any]) -> Iterable[str]:
    report = data["steps"][0]["report"]
    yield ""
    yield from table([{**r, "bytes": size(r["bytes"]), "float_bytes": size(r["float_bytes"])} for r in report["rows"]])
    found = report["summary"]
    many = "" if found["sequences"] == 1 else f" of {found['sequences']} sequences"
    yield (f"KV cache of {found['context']:,} tokens{many}: {size(found['kv_cache_bytes'])}, "
           f"{size(found['float_bytes'])} in float ({found['bits']:.2f} bits per element)")  # fmt: skip


COMMAND = Command(
    "kv-cache", "quantises the key/value cache of a language model, with its bytes and the score", _arguments, _run
)
