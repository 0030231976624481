"""The guide's page on fleets: its commands are read as they stand, its job files are what they claim to be."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from espalier.app.cli import commands, parser_of

TEXT = (Path(__file__).resolve().parents[2] / "resources/guide/fleets.md").read_text(encoding="utf-8")
BLOCKS = [
    "\n".join(line[4:] for line in b.splitlines())
    for b in re.findall(r"(?:^    .*\n|^\n(?=    ))+", TEXT, re.MULTILINE)
]


def command_lines() -> list[str]:
    """All calls of our program in the section, those in the middle of a sentence too."""
    inside = re.findall(r"`((?:main\.py|espalier) [^`…]*)`", TEXT)
    blocks = [line.partition("srun ")[2] or line for b in BLOCKS for line in b.splitlines()]
    return [c for c in (*inside, *blocks) if re.match(r"(main\.py|espalier) ", c)]


def test_there_are_commands() -> None:
    assert len(command_lines()) >= 6


@pytest.mark.parametrize("line", command_lines())
def test_a_command_is_read(line: str) -> None:
    _, name, *words = shlex.split(line)
    parser_of(commands()[name]).read(words)


def test_the_batch_script_is_one(tmp_path: Path) -> None:
    script = next(b for b in BLOCKS if "#SBATCH" in b)
    (tmp_path / "job").write_text(script)
    subprocess.run(["bash", "-n", str(tmp_path / "job")], check=True)
    flags = [w for line in script.splitlines() if line.startswith("#SBATCH ") for w in line.split()[1:]]
    assert flags and all(re.fullmatch(r"--[a-z-]+(=\S+)?", f) for f in flags)


def test_the_job_is_one() -> None:
    job = yaml.safe_load(next(b for b in BLOCKS if "kind: Job" in b))
    container = job["spec"]["template"]["spec"]["containers"][0]
    program, name, *words = container["args"]
    assert program == "espalier" and parser_of(commands()[name]).read(words).study == "bits"
    assert "completions" not in job["spec"] and job["apiVersion"] == "batch/v1"
