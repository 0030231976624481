"""Espalier: see a neural network as a graph, make it smaller, and carry it to kernels and hardware.

`import espalier as es` offers `open`, `trace`, `diff`, `stream` and what they return: the stable interface, loaded when used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from espalier.app.api.model import Model, diff, load_plugins, open, trace
    from espalier.app.api.reports import Allocation, Curve, Report, Steps, Study
    from espalier.app.api.streaming import stream
    from espalier.app.api.task import Task
    from espalier.model.errors import EspalierError

__version__ = "0.3.0"
__all__ = ["Allocation", "Curve", "EspalierError", "Model", "Report", "Steps", "Study", "Task", "__version__",
           "diff", "load_plugins", "open", "stream", "trace"]  # fmt: skip
_HOMES = {
    "espalier.app.api.model": ("Model", "diff", "load_plugins", "open", "trace"),
    "espalier.app.api.reports": ("Allocation", "Curve", "Report", "Steps", "Study"),
    "espalier.app.api.streaming": ("stream",),
    "espalier.app.api.task": ("Task",),
    "espalier.model.errors": ("EspalierError",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load what is asked for: `import espalier` alone stays light, for programs that may not need it."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_HOME_OF[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
