"""Command `stream`: scores and quantises a model larger than memory, segment by segment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.app.commands.command import Answer, Arguments, Command, Parser, UsageError
from espalier.app.commands.console import Console, facts, seconds, size, table
from espalier.app.commands.option_flags import read_options
from espalier.app.commands.scoring import add_data, changed, figures, noise_lines, plain, print_warning
from espalier.model.document.recipe import Recipe, Step
from espalier.passes.choices.autoround import AutoroundOptions
from espalier.passes.choices.awq import AwqOptions
from espalier.passes.choices.gptq import GptqOptions
from espalier.passes.choices.presets import PRESETS, QuantizePresetOptions, preset_named
from espalier.passes.choices.recovery import RecoveryOptions
from espalier.passes.figure import OPENED
from espalier.passes.jobs.heap import return_freed_memory
from espalier.passes.recipes.config import load_recipe
from espalier.passes.recipes.replay import check_ready
from espalier.passes.recipes.set_up import from_anywhere
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.transform.smoothquant import SmoothquantOptions

if TYPE_CHECKING:
    from espalier.passes.streaming.job import Streamed

METHODS: dict[str, type[RecoveryOptions]] = {
    "smoothquant": SmoothquantOptions, "awq": AwqOptions, "gptq": GptqOptions,
    "autoround": AutoroundOptions,
}  # fmt: skip
DETAILS = """\
MODEL is a Hugging Face folder with safetensors. Of its weights one segment is in memory at a time: half a decoder
layer (autoround: a whole one), an embedding, or the output layer. The result is that of the commands run, evaluate
and export, bit for bit.
Steps of a RECIPE are those that set formats, then smoothquant, awq, gptq and autoround. Without a RECIPE: --preset and
--method.
-o writes a compressed-tensors folder in shards. A command that was ended goes on from its last finished segment when
it is repeated; its working folder is OUT.unfinished, or --work.
examples
  main.py stream MODEL --data test.txt
  main.py stream MODEL --preset w4a16_g128 -o OUT --data test.txt
  main.py stream MODEL --preset w4a16_g128 --method gptq --calibration train.txt -o OUT"""


def _arguments(parser: Parser) -> None:
    parser.add_argument("target", metavar="MODEL", help="a Hugging Face folder with safetensors")
    parser.add_argument("recipe", metavar="RECIPE", nargs="?", help="TOML or JSON, as of the command run")
    parser.add_argument("--preset", metavar="NAME", type=preset_named, help=f"{', '.join(PRESETS)}, or a scheme: W4A16")
    parser.add_argument("--uneven", choices=("error", "channel"), default="error",
                        help="of the preset, where groups do not divide rows: stop, or one scale a row")  # fmt: skip
    parser.add_argument("--method", action="append", choices=tuple(METHODS), default=[],
                        help="of the preset: how weights are rounded; may repeat (awq and gptq)")  # fmt: skip
    parser.add_argument("--calibration", metavar="DATA", help="data of the methods; needed with --method")
    parser.add_argument(
        "--samples", type=int, default=128, metavar="N", help="samples of the calibration (default 128)"
    )
    parser.add_argument("-o", "--output", metavar="FOLDER", help="the folder to write; it must not exist")
    parser.add_argument("--work", metavar="FOLDER", help="the working folder (default: beside the output)")
    parser.add_argument("--no-baseline", action="store_true", help="do not measure the model as opened")
    text = "keep weights in float that compressed-tensors cannot hold, with the values of their formats"
    parser.add_argument("--leave-float", action="store_true", help=text)
    add_data(parser)


def recipe_of(args: Arguments) -> Recipe:
    """The recipe that the arguments name. Raises UsageError for arguments that exclude one another."""
    if args.recipe and (args.preset or args.method or args.calibration):
        raise UsageError("A recipe has its own steps.", "Leave out --preset, --method and --calibration.")
    if args.recipe:
        return from_anywhere(load_recipe(args.recipe, args.seed))
    if args.method and not args.preset:
        raise UsageError("--method needs formats.", f"Add --preset, such as {next(iter(PRESETS))}.")
    if bool(args.method) != bool(args.calibration):
        raise UsageError("--method and --calibration need one another.", "Give both, or none.")
    steps: list[Step] = []
    for name in (n for n in METHODS if n in args.method):
        shared = {k: getattr(args, k) for k in ("text", "tokenizer", "max_length") if getattr(args, k, None)}
        options = METHODS[name](data=args.calibration, limit=args.samples, **shared)
        steps.append(Step(name, options, args.seed))
    if args.preset:
        first = next((i for i, s in enumerate(steps) if s.pass_name != "smoothquant"), len(steps))
        steps.insert(first, Step("quantize_preset", QuantizePresetOptions(args.preset, uneven=args.uneven), args.seed))
    return from_anywhere(Recipe(tuple(steps)))


def _run(args: Arguments, console: Console) -> Answer:
    from espalier.passes.streaming.job import StreamOptions, stream

    recipe = recipe_of(args)
    check_ready(recipe)
    return_freed_memory()
    score = read_options(EvaluateOptions, args, data=args.data) if args.data else None
    options = StreamOptions(
        output=Path(args.output) if args.output else None, work=Path(args.work) if args.work else None, score=score,
        baseline=not args.no_baseline, leave_float=args.leave_float,
    )  # fmt: skip
    reading = {name: getattr(args, name, None) for name in ("tokenizer", "text", "label")}
    folder = reading["tokenizer"]
    if folder and Path(folder).expanduser().is_dir():
        reading["tokenizer"] = str(Path(folder).expanduser().resolve())
    done = stream(args.target, recipe, options, console.progress, **reading)
    data = to_dict(done)
    for score_ in (data.get("before"), data.get("after")):
        print_warning(score_ or {}, console)
    return Answer(data, lambda: _lines(data))


def to_dict(done: Streamed) -> dict[str, Any]:
    """The result as plain values."""
    data = asdict(replace(done, before=None, after=None))
    data |= {"files": [str(f) for f in done.files], "bytes": sum(f.stat().st_size for f in done.files),
             "peak_bytes": _peak()}  # fmt: skip
    data["steps"] = [{"step": name, "rows": list(rows)} for name, rows in done.steps]
    if done.after:
        data["after"] = plain(done.after)
    if done.before and done.after:
        data |= {"before": plain(done.before), "change": changed(done.before, done.after, OPENED)}
    return {k: v for k, v in data.items() if v is not None}


def _peak() -> int:
    """The largest resident memory of this process so far, in bytes; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    import sys

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _lines(data: dict[str, Any]) -> Iterable[str]:
    if "before" in data:
        before, after = figures(data["before"]), figures(data["after"])
        yield from table([{"": k, f"before ({OPENED})": before[k], "after": after[k]} for k in after])
    elif "after" in data:
        yield from facts(figures(data["after"]))
    if "after" in data:
        yield from noise_lines(data["after"], data.get("change", {}))
        yield ""
    for step in data["steps"]:
        yield f"{step['step']}: {len(step['rows'])} rows"
    if data["files"]:
        yield from data["files"]
        counts = Counter((t["label"] or "float", t["stored"]) for t in data["tensors"])
        for (label, stored), count in counts.items():
            taken = sum(t["bytes"] for t in data["tensors"] if (t["label"] or "float", t["stored"]) == (label, stored))
            yield f"{count} × {label} as {stored}: {size(taken)}"
        yield f"{size(data['bytes'])} in {len(data['files'])} files; the weights as opened: {size(data['total'])}"
    yield from (f"note: {n}" for n in data["notes"])
    resumed = f", of which {data['resumed']} were done before" if data["resumed"] else ""
    yield (f"{data['segments']} segments{resumed}; the largest {size(data['largest'])}; peak memory "
           f"{size(data['peak_bytes'])}; {seconds(data['seconds'])}")  # fmt: skip


COMMAND = Command(
    "stream", "scores and quantises a model larger than memory, segment by segment", _arguments, _run, DETAILS
)
