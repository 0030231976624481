"""Which options of the command `shard` belong together: one that would have no effect is an error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from espalier.app.commands.command import Arguments, UsageError
from espalier.passes.distributed.run import MAX_RANKS, RunOptions
from espalier.passes.distributed.serving.run import ServeOptions

RUN = {"data": "", "split": "", "limit": 0, "max_ranks": MAX_RANKS, "timeout": RunOptions().timeout}
SERVE = tuple(f.name for f in fields(ServeOptions) if f.name not in {r.name for r in fields(RunOptions)})
SEE = "See shard --help."


def check_given(args: Arguments) -> None:
    """Raise UsageError for options without the one that they belong to, and for a missing model."""
    acts = args.run or args.serve or args.emit
    if not args.target and (acts or not args.measure):
        raise UsageError("shard needs SOURCE|PROJECT.", f"Only --measure alone needs no model. {SEE}")
    if not args.serve:
        _refuse([n for n in SERVE if getattr(args, n) is not None], "--serve")
    if not (args.run or args.serve):
        _refuse([n for n, default in RUN.items() if getattr(args, n) != default], "--run or --serve")
    if not acts:
        _refuse(["strategy"] if args.strategy != "auto" else [], "--run, --serve or --emit")
    if args.serve and args.kill_rank is None:
        _refuse(["after"] if args.after is not None else [], "--kill-rank")


def _refuse(names: Sequence[str], needed: str) -> None:
    if names:
        flags = [f"--{n.replace('_', '-')}" for n in names]
        given = " and ".join(filter(None, (", ".join(flags[:-1]), flags[-1])))
        verb, rest = ("has", "it") if len(flags) == 1 else ("have", "them")
        raise UsageError(f"{given} {verb} no effect without {needed}.", f"Add {needed}, or leave {rest} out.")
