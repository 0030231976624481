"""Forks a command for each line of JSON that it reads, and answers with its process; how one ended stands in a file.

python -m tests.passes.fleet.warm_parent FOLDER
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import select
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SPEC = """
goals = ["accuracy"]
trials = 2
sampler = "random"
[[space]]
per = "all"
values = "integer(width=4|8)"
[score]
data = "demo:digits"
limit = 20
"""


def _fork(wish: Mapping[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, ending in ((1, ".out"), (2, ".err")):
            os.dup2(os.open(wish["place"] + ending, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), number)
        os.chdir(wish["cwd"])
        os.environ.clear()
        os.environ.update(wish["env"])
        code = _process(wish["words"])
        atexit._run_exitfuncs()
    except BaseException:  # noqa: BLE001  # a fork that went on would be a second parent
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _process(words: list[str]) -> int:
    from espalier.app.cli import process

    sys.argv = ["main.py", *words]
    return process()


def _import_all(folder: Path) -> None:
    """What a search imports, in this process: it runs in a fork, whose threads are not inherited."""
    (folder / "spec.toml").write_text(SPEC)
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            _process(["search", "demo:digits-mlp", str(folder / "spec.toml")])
            os.write(write, "\n".join(sys.modules).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as names:
        wanted = names.read().split()
    os.waitpid(pid, 0)
    for name in wanted:
        if not name.startswith("__"):
            try:
                importlib.import_module(name)
            except Exception:  # noqa: BLE001  # made while it ran, or only for a moment
                continue


def main() -> None:
    """Fork as asked until there is nobody to ask."""
    _import_all(Path(sys.argv[1]))
    places: dict[int, str] = {}
    asked = True
    while asked or places:
        if asked and select.select([0], [], [], 0.02)[0]:
            line = sys.stdin.readline()
            asked = bool(line)
            if line:
                wish = json.loads(line)
                pid = _fork(wish)
                places[pid] = wish["place"]
                sys.stdout.write(f"{pid}\n")
                sys.stdout.flush()
        elif not asked:
            time.sleep(0.02)
        while places:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            part = Path(f"{places.pop(pid)}.part")
            part.write_text(str(os.waitstatus_to_exitcode(status)))
            part.replace(part.with_suffix(".code"))


if __name__ == "__main__":
    main()
