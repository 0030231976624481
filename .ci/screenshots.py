"""The README's pictures: the window itself, after a few edits by hand on the reviews demo."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from PySide6.QtCore import QSettings
from PySide6.QtWidgets import QApplication

from espalier.app.features.kernels.actions import EXPLAINED, panel_of
from espalier.app.features.kernels.explained import KernelsExplained
from espalier.app.settings import Settings
from espalier.app.shell.application import make_application, make_window
from espalier.app.shell.window import Window
from espalier.model.formats.integer import Integer

TARGET = Path("resources/screenshots")
LAYER = "bert_encoder_layer_0_attention_self_key"


def spin(app: QApplication, until: Callable[[], bool], seconds: float = 120) -> None:
    """Process events until a condition holds."""
    end = time.monotonic() + seconds
    while not until() and time.monotonic() < end:
        app.processEvents()
        time.sleep(0.005)


def rest(app: QApplication, window: Window) -> None:
    """Wait until nothing moves any more."""
    spin(app, lambda: not window.session.jobs and not window.live.waiting)
    spin(app, lambda: False, 1.5)
    spin(app, lambda: not window.session.jobs and not window.live.waiting)


def edit(window: Window) -> None:
    """8-bit weights everywhere, 6 bits and some pruning in the first block."""
    session = window.session
    assert session.document is not None
    linear = [n.id for n in session.document.graph if n.op == "linear"]
    session.set_format(linear, "weight", Integer(8, 6))
    session.set_format(linear, "data_in", Integer(8, 4))
    block = [n for n in linear if "layer_0" in n]
    session.set_format(block[3:], "weight", Integer(6, 4))
    session.set_sparsity(block[:3], 0.3)


def kernels(app: QApplication, window: Window) -> None:
    """The panel Kernels: a question whose picture needs no figures of this machine."""
    window.docks.bring("kernels")
    page = panel_of(window).page(EXPLAINED)
    assert isinstance(page, KernelsExplained)
    page.choose("mxint8")
    rest(app, window)


def picture(theme: str, folder: Path) -> None:
    """One picture."""
    app = make_application()
    settings = Settings(QSettings(str(folder / f"{theme}.ini"), QSettings.Format.IniFormat))
    window = make_window(app, settings, theme)
    window.resize(1600, 1000)
    window.show()
    window.begin_opening("demo:reviews")
    spin(app, lambda: window.session.document is not None)
    rest(app, window)
    edit(window)
    rest(app, window)
    window.session.evaluate()
    rest(app, window)
    window.go_to(LAYER)
    rest(app, window)
    TARGET.mkdir(parents=True, exist_ok=True)
    window.grab().save(str(TARGET / f"window-{theme}.png"))
    kernels(app, window)
    window.grab().save(str(TARGET / f"kernels-{theme}.png"))
    window.leave()


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as made:
        for name in sys.argv[1:] or ("light", "dark"):
            picture(name, Path(made))
