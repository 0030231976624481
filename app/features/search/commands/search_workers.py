"""Several workers of a search: local ones of --workers, and remote ones that join its storage."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING

from espalier.app.commands.command import Arguments, Parser, UsageError
from espalier.app.commands.console import Console
from espalier.app.commands.opening import Target
from espalier.app.features.search.commands.search_files import spec_path
from espalier.model.document.codec import encode
from espalier.model.document.project import recipe_to_json
from espalier.model.opening import is_project
from espalier.model.trust import factory_of
from espalier.passes.search.trial import Trial

if TYPE_CHECKING:
    from espalier.passes.search.study import StudyRun

MOST = 256


def add_workers(parser: Parser) -> None:
    """Add the option --workers."""
    parser.add_argument("--workers", type=int, default=1, metavar="N",
                        help="processes on this machine, limited by its memory (default 1)")  # fmt: skip


def trials_of_all(
    running: StudyRun, storage: str, arguments: Arguments, target: Target, console: Console
) -> Generator[Trial]:
    """The trials of this process and of all others; a given storage receives the model for joining workers."""
    from espalier.passes.search.fleet.local_workers import LocalWorkers, all_trials

    _hand_over(running, storage, arguments, target, console)
    local = LocalWorkers(arguments.workers - 1, storage, running.spec.study, console.note, tuple(arguments.plugin))
    if local.wanted:
        import torch

        torch.set_num_threads(local.threads)
    return all_trials(running, local)


def check_workers(arguments: Arguments) -> None:
    """Raise UsageError for an impossible number of workers."""
    if not 1 <= arguments.workers <= MOST:
        raise UsageError(f"--workers is {arguments.workers}.", f"It must be a whole number from 1 to {MOST}.")


def _hand_over(running: StudyRun, storage: str, arguments: Arguments, target: Target, console: Console) -> None:
    if not arguments.storage and arguments.workers == 1:
        return
    from espalier.passes.search.fleet.model_transfer import LIMIT, hand_over, paths_read_by

    search = running.plan.search
    plain = [encode(search.spec), recipe_to_json(search.recipe)]
    path = arguments.target if is_project(arguments.target) else ""
    console.progress(0, 0, "transferring the model")
    may = may_leave(arguments)
    package = hand_over(running.study, storage, target.project, target.store, path, plain, may)
    for refused in sorted(p for p in paths_read_by(target.project, plain) if arguments.storage and not may(p)):
        console.note(f"{refused} is not transferred: a file names it, and it lies elsewhere than that file. "
                     f"Add --trust {refused}, or have it at that path on each machine.")  # fmt: skip
    if not package.digest:
        console.note(f"The model ({package.size / 1e9:.1f} GB) exceeds the limit of a transfer ({LIMIT / 1e9:.1f} GB): "
                     f"give workers elsewhere its project with --project.")  # fmt: skip


def may_leave(arguments: Arguments) -> Callable[[str], bool]:
    """Whether a path may be sent to a storage: the user named it, or it is beside a file that the user named.

    Projects and specs of other people may name any file that this user can read.
    """
    named = {Path(p).expanduser().resolve() for p in (arguments.data, *arguments.trust) if p}
    target = Path((factory_of(arguments.target) or (arguments.target,))[0]).expanduser().resolve()
    spec = spec_path(arguments.spec).resolve()
    folders = {*named, target if target.is_dir() else target.parent, spec.parent}
    if not target.exists():
        folders.discard(target.parent)
    home = Path.home().resolve()
    inside = folders - {home, *home.parents}  # all files of the user are beside a file in these folders

    def may(path: str) -> bool:
        true = Path(path).expanduser().resolve()
        return true in named or any(true.is_relative_to(folder) for folder in inside)

    return may
