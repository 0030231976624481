"""A runtime in a process of its own, which takes a request as a line of JSON and answers with one: it can crash, and
its libraries print.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from espalier.model.errors import ExportError
from espalier.model.leftovers import Scratch
from espalier.model.orphans import python_command
from espalier.passes.export import alternating

if TYPE_CHECKING:
    from torch import Tensor

SECONDS = 1800  # that an answer may take
_SERVER = "import runpy, sys\nrunpy.run_path(sys.argv[1], run_name='__main__')\n"


class ChildProcess:
    """The process, which ends with this object or its context. `title`: of the runtime; `hints`: by request, of errors.

    All methods raise ExportError.
    """

    title, hint = "The runtime", ""
    hints: Mapping[str, str] = {}

    def __init__(self, server: Path) -> None:
        self._scratch, self._server = Scratch(), server
        self._log = self._scratch.folder / "log"
        self._process = self._started()
        self.close = weakref.finalize(self, _close, self._process, self._scratch)

    def _started(self) -> subprocess.Popen[bytes]:
        command = python_command(_SERVER, str(self._server))
        with self._log.open("wb") as log:
            return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def run(self, path: Path, inputs: Mapping[str, Tensor], threads: int = 1, **more: Any) -> list[Tensor]:
        """The results of a file with inputs by name; `more`: what else the server takes."""
        import numpy as np
        import torch

        results = str(self._scratch.folder / "results.npz")
        given = {"inputs": self._saved(inputs, "inputs.npz"), "results": results, "threads": threads}
        self._ask("run", path=str(path), **given, **more)
        with np.load(results) as found:
            return [torch.from_numpy(found[name]) for name in found.files]

    def timed(self, paths: Sequence[Path], threads: int, inputs: Mapping[str, Tensor], runs: int) -> list[float]:
        """Median seconds of files, in turn."""
        given = {"paths": [str(p) for p in paths], "threads": threads, "runs": runs, "timing": alternating.__file__}
        return list(self._ask("timed", inputs=self._saved(inputs, "inputs.npz"), **given)["seconds"])

    def _saved(self, inputs: Mapping[str, Tensor], name: str) -> str:
        import numpy as np

        path = self._scratch.folder / name
        np.savez(path, **{k: v.contiguous().numpy() for k, v in inputs.items()})  # type: ignore[arg-type]
        return str(path)

    def _ask(self, do: str, **given: Any) -> dict[str, Any]:
        if self._process.poll() is not None and self.close.detach():  # what one request ended, others may survive
            _end(self._process)
            self._process = self._started()
            self.close = weakref.finalize(self, _close, self._process, self._scratch)
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        with contextlib.suppress(BrokenPipeError):
            stdin.write(json.dumps({"do": do, **given}).encode() + b"\n")
            stdin.flush()
        late = threading.Timer(SECONDS, self._process.kill)
        late.daemon = True
        late.start()
        start = time.monotonic()
        line = stdout.readline()
        late.cancel()
        hint = self.hints.get(do, self.hint)
        if not line:
            ended = f"its process ended with {self._process.wait()}{self._last()}"
            text = f"it took more than {SECONDS} s" if time.monotonic() - start > SECONDS else ended
            raise ExportError(f"{self.title} cannot take the model ({text}).", hint)
        answer: dict[str, Any] = json.loads(line)
        if answer.get("errno"):
            raise OSError(answer["errno"], os.strerror(answer["errno"]), str(given.get("path", "")))
        if "error" in answer:
            raise ExportError(f"{self.title} cannot take the model ({answer['error']}).", hint)
        return answer

    def _last(self) -> str:
        """The last line that it printed."""
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return f": {lines[-1].strip()[:200]}" if lines else ""


def _close(process: subprocess.Popen[bytes], scratch: Scratch) -> None:
    _end(process)
    scratch.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            if pipe is not None:
                pipe.close()
