"""The guide's pictures: the window itself, after a few edits by hand, a search, a simulation."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "roots"))

from PIL import Image
from PySide6.QtCore import QSettings
from PySide6.QtWidgets import QApplication, QTabBar, QTabWidget
from session_pictures import session

from espalier.app.cli import main
from espalier.app.features.hardware.actions import panel_of as hardware_of
from espalier.app.features.kernels.actions import EXPLANATIONS
from espalier.app.features.kernels.actions import panel_of as kernels_of
from espalier.app.features.kernels.explanations import KernelExplanations
from espalier.app.features.search.actions import begin_with
from espalier.app.settings import Settings
from espalier.app.shell.application import make_application, make_window
from espalier.app.shell.window import Window
from espalier.model.formats.integer import Integer

TARGET = Path("resources/guide/pictures")
LAYER = "bert_encoder_layer_0_attention_self_key"
SIZE = 1440, 900
COLOURS = 256  # of a picture's palette: a third of the bytes
HARDWARE = """
[[steps]]
pass = "quantize"
[[steps.options.rules]]
select = {by = "type", values = ["linear"]}
[steps.options.rules.formats]
data_in = "integer(width=8,frac_width=4)"
weight = "integer(width=8,frac_width=6)"
bias = "integer(width=12,frac_width=8)"
[[steps]]
pass = "balance_parallelism"
options = {multipliers = 64}
"""


def spin(app: QApplication, until: Callable[[], bool], seconds: float = 400) -> None:
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


def keep(window: Window, name: str) -> None:
    """Save the window as a compact picture."""
    TARGET.mkdir(parents=True, exist_ok=True)
    path = TARGET / f"{name}.png"
    window.grab().save(str(path))
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


def opened(app: QApplication, window: Window, source: str) -> None:
    """Open a model in the window as it first is, and wait for its score."""
    window.docks.reset()
    window.canvas.set_mode("kind")
    window.begin_opening(source)
    spin(app, lambda: window.session.document is not None)
    rest(app, window)


def edited(app: QApplication, window: Window) -> None:
    """8-bit weights everywhere, 6 bits and some pruning in the first block."""
    opened(app, window, "demo:reviews")
    session = window.session
    assert session.document is not None
    linear = [n.id for n in session.document.graph if n.op == "linear"]
    session.set_format(linear, "weight", Integer(8, 6))
    session.set_format(linear, "data_in", Integer(8, 4))
    block = [n for n in linear if "layer_0" in n]
    session.set_format(block[3:], "weight", Integer(6, 4))
    session.set_sparsity(block[:3], 0.3)
    rest(app, window)
    session.evaluate()
    rest(app, window)
    window.graph_view.go_to(LAYER)
    rest(app, window)


def search(app: QApplication, window: Window) -> None:
    """A search over the bits of a small model's weights, done."""
    opened(app, window, "demo:digits-mlp")
    begin_with(window.host, "mixed-precision")
    spin(app, lambda: False, 1.0)
    window.actions_table.run("search_run")
    spin(app, lambda: bool(window.session.jobs), 20)
    rest(app, window)


def hardware(app: QApplication, window: Window) -> None:
    """A simulated design, its handshakes in front."""
    with tempfile.TemporaryDirectory() as folder:
        recipe, project = Path(folder, "hw.toml"), Path(folder, "digits.espalier")
        recipe.write_text(HARDWARE)
        assert main(["run", "demo:digits-mlp", str(recipe), "-o", str(project)]) == 0
        opened(app, window, str(project))
        window.docks.bring("hardware")
        panel = hardware_of(window.host)
        panel.run("simulate")
        rest(app, window)
        for tabs in (*panel.findChildren(QTabWidget), *panel.findChildren(QTabBar)):
            for at in range(tabs.count()):
                if tabs.tabText(at).startswith("Handshakes"):
                    tabs.setCurrentIndex(at)
        window.canvas.set_mode("cycles")
        rest(app, window)
        keep(window, "hardware")


def kernels(app: QApplication, window: Window) -> None:
    """A question on kernels whose picture needs no figures of this machine."""
    opened(app, window, "demo:digits-mlp")
    window.docks.bring("kernels")
    page = kernels_of(window.host).page(EXPLANATIONS)
    assert isinstance(page, KernelExplanations)
    page.choose("mxint8")
    rest(app, window)


def pictures(names: set[str]) -> None:
    """All pictures, or those that are named."""
    app = make_application()
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(QSettings(str(Path(folder, "light.ini")), QSettings.Format.IniFormat))
        window = make_window(app, settings, "light")
        window.resize(*SIZE)
        window.show()
        makers = {"window-light": edited, "kernels": kernels, "search": search, "hardware": hardware}
        for name, make in makers.items():
            if not names or name in names:
                make(app, window)
                keep(window, name)
        if not names or "session" in names:
            session(app, window, opened, rest, keep)
        window.close_now()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as state:
        os.environ["ESPALIER_STATE"] = state  # so that nobody's unsaved work is offered in a picture
        pictures(set(sys.argv[1:]))
