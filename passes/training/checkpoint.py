"""Checkpoints of a training, from which it resumes with identical results: weights, optimiser, schedule, random state,
metrics and other state. Tensors are stored as safetensors, the rest as JSON: no executable code.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from filelock import FileLock, Timeout
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import TrainerCallback

from espalier.model.errors import FileError
from espalier.model.files import replacing_folder
from espalier.model.private import private_folder
from espalier.passes.base import Context
from espalier.passes.training.checkpoint_folders import SHARDS, STATE, TENSORS, clear, clear_old, end, latest

SECONDS = 60.0  # between checkpoints
SHARE = 0.02  # maximum share of the time spent writing
TRAINER = "trainer_state.json"  # file name expected by the Trainer
NONE = "No checkpoint could be written"
LOST = "The last checkpoint could not be read, so the training began again from step 0."
OTHER = "Another process runs the same training, so this one wrote no checkpoints."
Raw = dict[str, Any]
Tensors = Callable[[], dict[str, Tensor]]


class Part(Protocol):
    """Further state of a training."""

    def state(self) -> Raw:
        """Plain values and tensors for `restore`."""
        ...

    def restore(self, state: Raw) -> None:
        """Restore the result of `state`."""
        ...


class Checkpoints(TrainerCallback):
    """Writes checkpoints into `folder` at intervals, and when the training is paused.

    `tensors`: returns the trained tensors. `every`: optimiser steps, 0 for about once a minute. `data`: a digest of the
    samples; checkpoints of other samples are not used. A folder locked by another process is not used.
    """

    def __init__(self, folder: Path, context: Context, tensors: Tensors, every: int, data: str) -> None:
        self.folder, self.context, self.tensors = folder, context, tensors
        self.every, self.data = every, data
        self.parts: dict[str, Part] = {}
        self.resumed: Raw | None = None
        self.failed, self.lost = "", ""
        self._from: Path | None = None
        self._last, self._cost = time.monotonic(), 0.0
        self._lock = FileLock(folder / "lock")
        self._locked = self._acquire()

    def _acquire(self) -> bool:
        clear_old()
        try:
            private_folder(self.folder)
            self._lock.acquire(timeout=0)
        except (Timeout, OSError) as error:
            self.failed = OTHER if isinstance(error, Timeout) else f"{NONE} ({error})."
            return False
        return True

    # -- reading

    def load(self, wanted: bool) -> Path | None:
        """The checkpoint to resume from, read in full; a damaged, foreign or unwanted one is deleted."""
        self._from = latest(self.folder) if self._locked else None
        if self._from is not None:
            try:
                content = self.get(self._from)
                self.resumed = content if wanted and content["data"] == self.data else None
            # With any defect of a checkpoint, the training starts from the beginning.
            except Exception:  # noqa: BLE001
                self.resumed, self.lost = None, LOST if wanted else ""
        if self.resumed is None and self._locked:
            self.clear_others()
            self._from = None
        return self._from

    def get(self, folder: Path) -> Raw:
        """A checkpoint's content; raises any exception if it is damaged."""
        return read(folder)

    def restore_weights(self) -> None:
        """Restore the weights and parts of the loaded checkpoint."""
        assert self.resumed is not None
        trained = self.tensors()
        with torch.no_grad():
            for name, value in self.resumed["weights"].items():
                trained[name].copy_(value)
        for name, part in self.parts.items():
            part.restore(self.resumed["parts"][name])

    def restore_last(self) -> int:
        """Restore the weights and parts of the last checkpoint; returns its step, 0 if there is none."""
        last = latest(self.folder) if self._locked else None
        try:
            self.resumed = self.get(last) if last is not None else None
        except Exception:  # noqa: BLE001
            self.resumed = None
        if self.resumed is None:
            return 0
        self.restore_weights()
        return int(self.resumed["step"])

    # -- schedule

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Save if due; a pause starts with a checkpoint."""
        paused = self.context.paused()
        control.should_save = self._locked and not self.failed and (paused or self._due(state, control))
        if paused and not control.should_save:
            self.on_save(args, state, control)

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A pause requested during an evaluation starts after it, so that the checkpoint contains its result."""
        if state.global_step and self.context.paused():
            self.on_step_end(args, state, control)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Report progress, in which a paused training waits."""
        self.context.progress(state.global_step, state.max_steps, "training")

    def _due(self, state: Any, control: Any) -> bool:
        if control.should_training_stop:
            return False
        if self.every:
            return state.global_step % self.every == 0
        return time.monotonic() - self._last > max(SECONDS, self._cost / SHARE)

    # -- writing

    def save(self, trainer: Any) -> None:
        """Write a checkpoint, then delete the previous one; training continues if it cannot be written."""
        start = time.monotonic()
        step = trainer.state.global_step
        new = self.folder / f"step-{step:09d}"
        content: Raw = {
            "step": step, "steps": trainer.state.max_steps, "data": self.data, "weights": self.tensors(),
            "optimiser": trainer.optimizer.state_dict(), "schedule": trainer.lr_scheduler.state_dict(),
            "scaler": scaler.state_dict() if (scaler := trainer.accelerator.scaler) is not None else None,
            "chance": random_state(), "parts": {n: p.state() for n, p in self.parts.items()},
        }  # fmt: skip
        try:
            self.put(new, content, trainer.state)
        except FileError as error:
            self.failed = f"{NONE}: {error}"
        else:
            self.clear_others(new)
        self._last = time.monotonic()
        self._cost = self._last - start

    def put(self, new: Path, content: Raw, state: Any) -> None:
        """Write a checkpoint as a whole; raises FileError."""
        with replacing_folder(new) as part:
            write(part, content)
            state.save_to_json(str(part / TRAINER))

    def clear_others(self, new: Path | None = None) -> None:
        """Delete all checkpoints but one."""
        for old in self.folder.glob("step-*"):
            if old != new:
                clear(old)

    def end(self, finished: bool) -> None:
        """Unlock the folder; a finished training needs no checkpoints."""
        if self._locked:
            self._lock.release()
            if finished:
                end(self.folder)


# -- files


def write(folder: Path, content: Raw) -> None:
    """Write nested values: tensors to tensors.safetensors, the rest to state.json."""
    tensors: dict[str, Tensor] = {}
    text = json.dumps(
        {"step": content.get("step", 0), "steps": content.get("steps", 0), "held": _pack(content, tensors)}
    )
    save_file(tensors, folder / TENSORS)
    (folder / STATE).write_text(text)


def read(folder: Path) -> Raw:
    """Read the files of `write`; raises any exception if they are damaged."""
    return complete(read_content(folder))


def complete(content: Raw) -> Raw:
    """The content of a checkpoint; raises ValueError if a part is missing."""
    if not set(content) >= {"step", "steps", "data", "weights", "optimiser", "schedule", "chance", "parts"}:
        raise ValueError("a part is missing")
    return content


def read_content(folder: Path) -> Raw:
    """As `read`, of any content."""
    content = read_state(folder)
    if (folder / SHARDS).is_dir():
        from espalier.passes.training.shards import load_whole, merged

        content = merged(content, load_whole(folder / SHARDS))
    return content


def read_state(folder: Path) -> Raw:
    """The content of a checkpoint's files that one process has written."""
    content: Raw = _unpack(json.loads((folder / STATE).read_text())["held"], load_file(folder / TENSORS))
    return content


def _pack(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Values as JSON; tensors are added to `tensors` and replaced by their index."""
    match value:
        case Tensor():
            name = str(len(tensors))
            plain = value.detach().cpu().contiguous()
            # Safetensors refuses shared memory, such as the counters of equal batch norms.
            shared = any(plain.data_ptr() == t.data_ptr() for t in tensors.values() if t.numel())
            tensors[name] = plain.clone() if shared else plain
            return {"tensor": name}
        case Mapping():
            return {"items": [[k, _pack(v, tensors)] for k, v in value.items()]}
        case tuple():
            return {"tuple": [_pack(v, tensors) for v in value]}
        case list():
            return [_pack(v, tensors) for v in value]
        case None | bool() | int() | float() | str():
            return value
        case _:
            raise TypeError(f"a checkpoint cannot hold {type(value).__name__}")


def _unpack(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    match value:
        case {"tensor": name}:
            return tensors[name]
        case {"items": pairs}:
            return {k: _unpack(v, tensors) for k, v in pairs}
        case {"tuple": parts}:
            return tuple(_unpack(v, tensors) for v in parts)
        case list():
            return [_unpack(v, tensors) for v in value]
        case _:
            return value


def random_state() -> Raw:
    """The state of all random generators."""
    kind, keys, *rest = np.random.get_state()  # type: ignore[misc]
    drawn = [kind, torch.from_numpy(np.asarray(keys, np.int64)), *rest]
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {"python": random.getstate(), "numpy": drawn, "torch": torch.get_rng_state(), "cuda": cuda}


def set_random_state(state: Raw) -> None:
    """Restore the result of `random_state`."""
    kind, keys, *rest = state["numpy"]
    random.setstate(state["python"])
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))
    torch.set_rng_state(state["torch"])
    cuda: Sequence[Tensor] = state["cuda"]
    if cuda and len(cuda) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(list(cuda))
