"""Files for OpenVINO: run by OpenVINO, they compute what the model computes; what they cannot hold is refused."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import espalier as es
from espalier.model.errors import ExportError
from espalier.passes.export.openvino.child import OpenVINO
from espalier.passes.export.openvino.file import compare_openvino
from espalier.passes.export.openvino.overflow import CODE, DEPTH, LARGEST, overflow
from tests.passes.export.models import made

pytest.importorskip("onnxscript")
openvino: Any = pytest.importorskip("openvino")
AFFINE = "scaled_integer(granularity=tensor,symmetric=false)"
GROUPS = "scaled_integer(width=4,granularity=group,group=32)"


@cache
def core() -> openvino.Core:
    """One for this process: see the test of stacks for signals."""
    return openvino.Core()


def mlp(columns: int = 37) -> tuple[es.Model, torch.Tensor]:
    torch.manual_seed(0)
    x = torch.randn(4, columns)
    layers = nn.Linear(columns, 64), nn.GELU(), nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10)
    return es.trace(nn.Sequential(*layers).eval(), x), x


def results(path: Path, *values: torch.Tensor) -> list[np.ndarray[Any, Any]]:
    """What OpenVINO alone makes of a file."""
    model = core().compile_model(str(path), "CPU")
    found = model([v.numpy() for v in values])
    return [found[o] for o in model.outputs]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("formats", "kind"),
    [({"weight": "int8"}, "i8"), ({"weight": GROUPS}, "i4"), ({"weight": "ternary"}, "i4"), ({"weight": "int4"}, "i4"),
     ({"weight": "mxint8"}, "i8"), ({"weight": "nvfp4"}, "i8"), ({"weight": "integer(width=8,frac_width=6)"}, "i8"),
     ({"weight": "scaled_integer(width=7)", "data_in": "integer(width=8,frac_width=4)"}, "i8"),
     ({"weight": "int8", "data_in": "int8"}, "i8"), ({"weight": "int8", "data_in": AFFINE}, "i8"),
     ({"data_in": "minifloat(width=8,exponent_width=4)"}, "f32")],
)  # fmt: skip
def test_results_are_the_model_s_and_weights_are_whole_numbers(
    formats: dict[str, str], kind: str, tmp_path: Path
) -> None:
    m, x = mlp(64 if kind == "i4" else 37)
    m.quantize("linear", **formats)
    report = m.export("openvino", tmp_path / "m")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.bin", "m.xml"]
    want = m.to_torch()(x).detach().numpy()
    (got,) = results(tmp_path / "m.xml", x)
    np.testing.assert_allclose(got, want, atol=1e-5)
    assert report.summary["max_abs_diff"] < 1e-5
    model = core().read_model(str(tmp_path / "m.xml"))
    held = {c.get_element_type().get_type_name() for c in model.get_ops()
            if c.get_type_name() == "Constant" and len(c.shape) > 1 and c.shape[-1] > 1}  # fmt: skip
    assert kind in held, held


@pytest.mark.slow
def test_rows_that_end_in_a_part_of_a_group_are_refused_or_left_in_float(tmp_path: Path) -> None:
    """OpenVINO 2026.4 ends its process for 36 columns in groups of 32 codes of 4 bits, or computes other values."""
    m, x = mlp(36)
    m.quantize("linear", weight=GROUPS)
    with pytest.raises(ExportError, match="rows of 36 are no multiple of its groups of 32") as found:
        m.export("openvino", tmp_path / "m")
    assert "scaled_integer(width=8)" in found.value.hint and not list(tmp_path.iterdir())
    assert m.export_targets().summary["openvino"] == "2 of 3 nodes held"
    report = m.export("openvino", tmp_path / "m", leave_float=True)
    assert any("Left in float with the values of its format: weight" in n for n in report.summary["notes"])
    np.testing.assert_allclose(results(tmp_path / "m.xml", x)[0], m.to_torch()(x).detach().numpy(), atol=1e-5)


@pytest.mark.slow
def test_rows_of_an_odd_length_are_refused_or_left_in_float(tmp_path: Path) -> None:
    """OpenVINO 2026.4 computes other values for 37 codes of 4 bits from the fifth row of a batch on."""
    m, _ = mlp(37)
    m.quantize("linear", weight="int4")
    with pytest.raises(ExportError, match=r"4-bit rows of an odd length \(37\)"):
        m.export("openvino", tmp_path / "m")
    m.export("openvino", tmp_path / "m", leave_float=True)
    x = torch.randn(9, 37)
    np.testing.assert_allclose(results(tmp_path / "m.xml", x)[0], m.to_torch()(x).detach().numpy(), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("fmt", ["integer(width=8,frac_width=4)", "integer(width=4,frac_width=4,signed=false)"])
def test_small_codes_of_wider_formats_in_rows_of_an_odd_length(fmt: str, tmp_path: Path) -> None:
    """They fit in 4 bits, which OpenVINO misreads there, and lie in 8."""
    torch.manual_seed(0)
    x = torch.randn(9, 37)
    m = es.trace(nn.Sequential(nn.Linear(37, 8)).eval(), x[:4])  # whose largest weight is 37 ** -0.5
    m.quantize("linear", weight=fmt)
    assert not m.export("openvino", tmp_path / "m").summary["notes"]
    np.testing.assert_allclose(results(tmp_path / "m.xml", x)[0], m.to_torch()(x).detach().numpy(), atol=1e-5)


@pytest.mark.slow
def test_activations_of_16_bits_are_refused_or_left_in_float(tmp_path: Path) -> None:
    m, x = mlp()
    plain = m.copy().to_torch()(x).detach().numpy()
    m.quantize("linear", data_in="integer(width=16,frac_width=2)")
    with pytest.raises(ExportError, match="rounded to 8 bits at most"):
        m.export("openvino", tmp_path / "m")
    report = m.export("openvino", tmp_path / "m", leave_float=True)
    assert any("Left in float" in n for n in report.summary["notes"])
    np.testing.assert_allclose(results(tmp_path / "m.xml", x)[0], plain, atol=1e-5)


class Product(nn.Module):
    """x·(A·x + b)ᵀ: two activations, of which the second is at the port `weight`."""

    def __init__(self) -> None:
        super().__init__()
        self.second = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.matmul(x, self.second(x).transpose(-1, -2))


@pytest.mark.slow
def test_second_operands_of_products_are_activations_too(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 5, 16)
    m = es.trace(Product().eval(), x)
    plain = m.copy().to_torch()(x).detach().numpy()
    m.quantize("matmul", weight="integer(width=16,frac_width=2)")
    with pytest.raises(ExportError, match="rounded to 8 bits at most"):
        m.export("openvino", tmp_path / "m")
    assert m.export_targets().summary["openvino"] == "0 of 1 nodes held"
    report = m.export("openvino", tmp_path / "m", leave_float=True)
    assert any(n.startswith("Left in float: weight of matmul") for n in report.summary["notes"])
    np.testing.assert_allclose(results(tmp_path / "m.xml", x)[0], plain, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bert", "odd", "tied", "gpt2", "t5"])
def test_models_of_transformers_at_other_sizes(kind: str, tmp_path: Path) -> None:
    m = es.open(made(kind, tmp_path / kind)).quantize("linear", weight="int8").quantize("embedding", weight="int8")
    report = m.export("openvino", tmp_path / "m")  # it is compared at the sizes of the trace, at one, and at others
    assert report.summary["max_abs_diff"] < 1e-4 and not report.summary["notes"]


@pytest.mark.slow
def test_convolutions_become_integer_products(tmp_path: Path) -> None:
    m = es.open("demo:digits").fold_batch_norm()
    m.quantize(["conv2d", "linear"], weight="scaled_integer(width=7)", data_in=AFFINE).calibrate(data="demo:digits")
    m.export("openvino", tmp_path / "m")
    model = core().compile_model(str(tmp_path / "m.xml"), "CPU")
    kinds = [(str(n.get_rt_info()["layerType"].value), str(n.get_rt_info()["runtimePrecision"].value))
             for n in model.get_runtime_model().get_ops()]  # fmt: skip
    assert kinds.count(("Convolution", "u8")) == 3, kinds


@pytest.mark.slow
def test_overflows_are_told_as_they_are_observed(tmp_path: Path) -> None:
    with OpenVINO() as process:
        told, right = overflow(process), DEPTH * LARGEST * CODE
    assert not told or f"gives {right:.0f}." not in told
    m, _ = mlp()
    m.quantize("linear", weight="int8", data_in="integer(width=8,frac_width=4)")
    with torch.no_grad():
        notes = m.export("openvino", tmp_path / "m").summary["notes"]
    assert any("overflow" in n for n in notes) == any("differ" in n for n in notes) and (told or not notes)


@pytest.mark.slow
def test_a_process_that_ends_is_one_error(tmp_path: Path) -> None:
    """The next request has another process."""
    m, x = mlp()
    m.export("openvino", tmp_path / "right")
    (tmp_path / "m.xml").write_text("<net></net>")
    with OpenVINO() as process:
        with pytest.raises(ExportError, match="OpenVINO cannot take the model"):
            process.run(tmp_path / "m.xml", {})
        os.kill(process._process.pid, signal.SIGFPE)
        process._process.wait()
        (name,) = (n.target for n in m.graph.placeholders)
        assert len(process.run(tmp_path / "right.xml", {name: x})) == 1
        running = process._process
        with pytest.raises(ExportError, match="OpenVINO cannot run it at"):
            compare_openvino(m.graph, m._place.opened.store, tmp_path / "m.xml", process)
        assert process._process is running
    assert running.poll() is not None


@pytest.mark.slow
def test_a_file_that_ends_the_process_at_one_size_runs_at_others(tmp_path: Path) -> None:
    m, x = mlp()
    m.export("openvino", tmp_path / "m")

    class Ending(OpenVINO):
        """Ends at one size, as OpenVINO does."""

        def run(self, path: Path, inputs: Any, threads: int = 1, **more: Any) -> list[torch.Tensor]:
            if next(iter(inputs.values())).shape == x.shape:
                self._process.kill()
                self._process.wait()
                raise ExportError("OpenVINO cannot take the model (its process ended with -9).")
            return super().run(path, inputs, threads, **more)

    with Ending() as process:
        found = compare_openvino(m.graph, m._place.opened.store, tmp_path / "m.xml", process)
    assert found is not None and found.difference is not None and found.difference < 1e-5
    assert sum("cannot run it" in note for note in found.notes) == 1


@pytest.mark.slow
def test_a_signal_after_a_check_ends_nothing(tmp_path: Path) -> None:
    """Cores of OpenVINO 2026.4 each give their thread a stack for signals, and put back one that is gone already."""
    code = (
        "import os, signal, sys, espalier as es\n"
        "heard = []\n"
        "signal.signal(signal.SIGTERM, lambda *_: heard.append(1))\n"
        "if __name__ == '__main__':\n"
        "    import faulthandler; faulthandler.enable()\n"
        "    m = es.open('demo:digits-mlp').quantize('linear', weight='int8')\n"
        "    for name in 'mn':\n"
        "        m.export('openvino', os.path.join(sys.argv[1], name), check=True, limit=20, runs=2)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    print('heard', len(heard))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("heard 1\n"), (done.returncode, done.stderr[-500:])


@pytest.mark.slow
def test_a_bin_of_something_else_stays_and_a_pair_is_never_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pair is written again, also after an end between its two files: OpenVINO reads no .xml with another's .bin."""
    m, x = mlp()
    path = tmp_path / "m.xml"
    m.export("openvino", path)
    own, real = (tmp_path / "m.bin").read_bytes(), os.replace
    (tmp_path / "m.bin").write_bytes(own + b"mine")
    with pytest.raises(ExportError, match=r"m\.bin exists and belongs to no m\.xml"):
        m.export("openvino", path)
    assert (tmp_path / "m.bin").read_bytes() == own + b"mine"
    (tmp_path / "m.bin").write_bytes(own)
    m.quantize("linear", weight="int8")

    def ended(old: Any, new: Any) -> None:
        real(old, new)
        if Path(new).suffix == ".bin":
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", ended)
    with pytest.raises(KeyboardInterrupt):
        m.export("openvino", path)
    monkeypatch.undo()
    assert (tmp_path / "m.bin").read_bytes() != own
    with pytest.raises(RuntimeError):
        results(path, x)
    m.export("openvino", path)
    np.testing.assert_allclose(results(path, x)[0], m.to_torch()(x).detach().numpy(), atol=1e-5)


def test_what_cannot_be_written_is_said_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    m, _ = mlp()
    (tmp_path / "m.bin").write_text("mine")
    with pytest.raises(ExportError, match=r"belongs to no m\.xml"):
        m.export("openvino", tmp_path / "m.xml")
    assert (tmp_path / "m.bin").read_text() == "mine"
    (tmp_path / "d.bin").mkdir()
    (tmp_path / "d.xml").write_text("mine")
    with pytest.raises(ExportError, match=r"d\.bin is a folder"):
        m.export("openvino", tmp_path / "d.xml")
    assert (tmp_path / "d.xml").read_text() == "mine"
    half = es.trace(nn.Linear(4, 4).bfloat16(), torch.randn(2, 4, dtype=torch.bfloat16))
    with pytest.raises(ExportError, match="bfloat16"):
        half.export("openvino", tmp_path / "n.xml")
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *a: None if name == "openvino" else find(name, *a))
    with pytest.raises(ExportError, match="package openvino"):
        m.export("openvino", tmp_path / "n.xml")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d.bin", "d.xml", "m.bin"]


@pytest.mark.slow
def test_the_check_counts_both_files(tmp_path: Path) -> None:
    m = es.open("demo:digits-mlp").quantize("linear", weight="scaled_integer(width=7)")
    found = m.export("openvino", tmp_path / "m", check=True, limit=20, runs=2).summary["check"]
    rows = {row["name"]: row for row in found["rows"]}
    size = sum(p.stat().st_size for p in tmp_path.iterdir())
    assert rows["this file"]["bytes"] == size and rows["this file"]["difference"] < 1e-4
    assert rows["float"]["ratio"] == 1 and found["runtime"].startswith("OpenVINO 20")
    assert rows["this file"]["accuracy"] == rows["Espalier"]["accuracy"] and rows["this file"]["peak_bytes"] > 0
    assert "nncf.quantize" in rows
