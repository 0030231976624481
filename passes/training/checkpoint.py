"""A training on disk, so that it goes on after a crash just as if there had been none: weights, optimiser, schedule,
chance, figures and whatever else moves. Tensors as safetensors, the rest as JSON: nothing that could run code.
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
from espalier.passes.training.unfinished import STATE, TENSORS, clear, clear_old, end, latest

SECONDS = 60.0  # between checkpoints
SHARE = 0.02  # of the time that writing them may take
TRAINER = "trainer_state.json"  # the name that the Trainer reads
NONE = "No checkpoint could be written"
OTHER = "Another process trains the same, so this one wrote no checkpoints."
Raw = dict[str, Any]
Tensors = Callable[[], dict[str, Tensor]]


class Part(Protocol):
    """What else of a training must survive."""

    def state(self) -> Raw:
        """Plain values and tensors."""
        ...

    def restore(self, held: Raw) -> None:
        """As `state` gave it."""
        ...


class Checkpoints(TrainerCallback):
    """Writes the training's checkpoints into `folder` from time to time, and whenever it is paused.

    `tensors`: what training moves, now. `every`: optimiser steps, 0 for about once a minute. `data`: a digest of the
    samples, since a checkpoint over others is of no use. A folder that another process trains in is left alone.
    """

    def __init__(self, folder: Path, context: Context, tensors: Tensors, every: int, data: str) -> None:
        self.folder, self.context, self.tensors = folder, context, tensors
        self.every, self.data = every, data
        self.parts: dict[str, Part] = {}
        self.resumed: Raw | None = None
        self.failed = ""
        self._from: Path | None = None
        self._last, self._cost = time.monotonic(), 0.0
        self._lock = FileLock(folder / "lock")
        self._mine = self._take()

    def _take(self) -> bool:
        clear_old()
        try:
            private_folder(self.folder)
            self._lock.acquire(timeout=0)
        except (Timeout, OSError) as error:
            self.failed = OTHER if isinstance(error, Timeout) else f"{NONE} ({error})."
            return False
        return True

    # -- what there is

    def look(self, wanted: bool) -> Path | None:
        """The checkpoint to go on from, read whole; one that is damaged, foreign or not wanted is deleted."""
        self._from = latest(self.folder) if self._mine else None
        if self._from is not None:
            try:
                held = read(self._from)
                self.resumed = held if wanted and held["data"] == self.data else None
            # Whatever is wrong with a checkpoint, the training begins anew.
            except Exception:  # noqa: BLE001
                self.resumed = None
        if self.resumed is None and self._mine:
            self._clear()
            self._from = None
        return self._from

    def weights(self) -> None:
        """Put the weights of the checkpoint in place, and what the parts had."""
        assert self.resumed is not None
        moving = self.tensors()
        with torch.no_grad():
            for name, value in self.resumed["weights"].items():
                moving[name].copy_(value)
        for name, part in self.parts.items():
            part.restore(self.resumed["parts"][name])

    def back(self) -> int:
        """Put the weights and parts of the last checkpoint back; returns its step, 0 where there is none."""
        found = latest(self.folder) if self._mine else None
        try:
            self.resumed = read(found) if found is not None else None
        except Exception:  # noqa: BLE001
            self.resumed = None
        if self.resumed is None:
            return 0
        self.weights()
        return int(self.resumed["step"])

    # -- when

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Save where it is time; a pause begins with it."""
        waits = self.context.paused()
        control.should_save = self._mine and not self.failed and (waits or self._due(state, control))
        if waits and not control.should_save:
            self.on_save(args, state, control)

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A pause that was asked for within an evaluation begins after it: a checkpoint holds what it found."""
        if state.global_step and self.context.paused():
            self.on_step_end(args, state, control)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Where a paused training waits."""
        self.context.progress(state.global_step, state.max_steps, "training")

    def _due(self, state: Any, control: Any) -> bool:
        if control.should_training_stop:
            return False
        if self.every:
            return state.global_step % self.every == 0
        return time.monotonic() - self._last > max(SECONDS, self._cost / SHARE)

    # -- writing

    def save(self, trainer: Any) -> None:
        """Write a checkpoint, then delete the one before; without room for it training goes on without."""
        start = time.monotonic()
        step = trainer.state.global_step
        whole = self.folder / f"step-{step:09d}"
        held: Raw = {
            "step": step, "steps": trainer.state.max_steps, "data": self.data, "weights": self.tensors(),
            "optimiser": trainer.optimizer.state_dict(), "schedule": trainer.lr_scheduler.state_dict(),
            "scaler": scaler.state_dict() if (scaler := trainer.accelerator.scaler) is not None else None,
            "chance": chance(), "parts": {n: p.state() for n, p in self.parts.items()},
        }  # fmt: skip
        try:
            with replacing_folder(whole) as part:
                write(part, held)
                trainer.state.save_to_json(str(part / TRAINER))
        except FileError as error:
            self.failed = f"{NONE}: {error}"
        else:
            for old in self.folder.glob("step-*"):
                if old != whole:
                    clear(old)
        self._last = time.monotonic()
        self._cost = self._last - start

    def end(self, finished: bool) -> None:
        """Let go of the folder; a training that has its result needs no checkpoints."""
        if self._mine:
            self._lock.release()
            if finished:
                end(self.folder)

    def _clear(self) -> None:
        for old in self.folder.glob("step-*"):
            clear(old)


# -- one checkpoint


def write(folder: Path, held: Raw) -> None:
    """Write values with tensors in them: tensors.safetensors, and state.json with the rest."""
    tensors: dict[str, Tensor] = {}
    text = json.dumps({"step": held["step"], "steps": held["steps"], "held": _pack(held, tensors)})
    save_file(tensors, folder / TENSORS)
    (folder / STATE).write_text(text)


def read(folder: Path) -> Raw:
    """What `write` wrote; raises anything where it is damaged."""
    tensors = load_file(folder / TENSORS)
    held: Raw = _unpack(json.loads((folder / STATE).read_text())["held"], tensors)
    if set(held) < {"step", "steps", "data", "weights", "optimiser", "schedule", "chance", "parts"}:
        raise ValueError("a part is missing")
    return held


def _pack(value: Any, tensors: dict[str, Tensor]) -> Any:
    """JSON for plain values; tensors go into `tensors` and leave their number."""
    match value:
        case Tensor():
            name = str(len(tensors))
            plain = value.detach().cpu().contiguous()
            # Safetensors refuses memory that is shared, as that of the counters of equal batch norms is.
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


def chance() -> Raw:
    """The state of every generator that training draws from."""
    kind, keys, *rest = np.random.get_state()  # type: ignore[misc]
    drawn = [kind, torch.from_numpy(np.asarray(keys, np.int64)), *rest]
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {"python": random.getstate(), "numpy": drawn, "torch": torch.get_rng_state(), "cuda": cuda}


def set_chance(held: Raw) -> None:
    """As `chance` gave it."""
    kind, keys, *rest = held["numpy"]
    random.setstate(held["python"])
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))
    torch.set_rng_state(held["torch"])
    cuda: Sequence[Tensor] = held["cuda"]
    if cuda and len(cuda) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(list(cuda))
