"""The facts of a source that projects store, and loaded models, ready to be traced."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.sources.reading import Limits, Reading

if TYPE_CHECKING:
    from torch import nn
    from torch.export import ExportedProgram

KINDS = "a Hugging Face folder, hf:NAME, config:TYPE?key=value, file.py:factory, model.pt2, a packed model or demo:NAME"

OBJECT = "python:"  # prefix of the source of a project that was traced from a Python object


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """The facts of a source that projects store. `spec` is absolute if it names a file.

    tokenizer, text, label, classes, limits: as in `Reading`, set by a command or the window.
    """

    spec: str
    name: str
    inputs: tuple[str, ...] = ()
    seed: int = 0
    tokenizer: str | None = None
    data: str | None = None
    text: str = ""
    label: str = ""
    classes: tuple[str, ...] = ()
    limits: Limits | None = None

    @property
    def reading(self) -> Reading:
        """The reading of data for the model."""
        return Reading(self.tokenizer, self.text, self.label, self.classes, self.limits)

    def taking(self, **facts: str | tuple[str, ...] | None) -> SourceInfo:
        """A copy with the non-empty facts on the reading of data."""
        return replace(self, **{name: value for name, value in facts.items() if value})  # type: ignore[arg-type]


@dataclass(slots=True)
class Loaded:
    """A model ready to be traced: an nn.Module and example keyword inputs, or an exported program.

    Examples with a leading "?" are only used if chosen by name. `notes`: automatic choices.
    `uncached`: transformers configurations whose `use_cache` is disabled for the capture.
    """

    info: SourceInfo
    model: nn.Module
    example: dict[str, Any]
    program: ExportedProgram | None = None
    files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    uncached: tuple[Any, ...] = ()

    def restore_cache(self) -> None:
        """Restore the cache configuration of the source, to save the model."""
        for config in self.uncached:
            config.use_cache = True


def demo_folder(name: str) -> Path:
    """The folder of a demo's files."""
    return Path(__file__).resolve().parents[2] / "resources" / "demos" / name
