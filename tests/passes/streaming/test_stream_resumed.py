"""A job that was ended goes on from its last finished segment, with the bytes of one that was not."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from espalier.model.document.recipe import Recipe
from espalier.model.errors import EspalierError, ExportError, JobError, OptionsError, PassError, ProjectError
from espalier.passes.choices.presets import QuantizePresetOptions
from espalier.passes.streaming.job import StreamOptions, stream
from espalier.passes.streaming.record import alone_in
from tests.passes.streaming.models import folder_of, recipe_of, score_of

pytest.importorskip("compressed_tensors")
pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[3]


def command(home: Path, out: Path) -> list[str]:
    texts = home.parent
    return [sys.executable, "-m", "espalier", "stream", str(home), "--preset", "w8a8", "--method", "gptq",
            "--calibration", str(texts / "train.txt"), "--samples", "6", "--max-length", "20", "--limit", "8", "--data",
            str(texts / "test.txt"), "-o", str(out), "--json"]  # fmt: skip


def started(words: list[str], limit: Callable[[], None] | None = None) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'roots'}:{ROOT}", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
                            preexec_fn=limit)  # fmt: skip


def hashes(folder: Path) -> dict[str, str]:
    return {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in folder.iterdir()}


def done(work: Path) -> int:
    file = work / "progress.json"
    return json.loads(file.read_text())["done"] if file.exists() else 0


def killed_after(words: list[str], work: Path, count: int) -> None:
    """Run a command until `count` segments are done, then kill it."""
    process, end = started(words), time.monotonic() + 120
    while done(work) < count and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    process.communicate()


def test_a_killed_job_goes_on_with_the_same_bytes(tmp_path: Path) -> None:
    home = folder_of("llama", tmp_path / "model")
    whole = started(command(home, tmp_path / "whole"))
    text, errors = whole.communicate(timeout=200)
    assert whole.returncode == 0, errors
    expected = json.loads(text)
    assert expected["resumed"] == 0 and expected["segments"] >= 5 and expected["after"]["loss"] > 0

    words, work = command(home, tmp_path / "parts"), tmp_path / "parts.unfinished"
    killed_after(words, work, 1)
    killed_after(words, work, 3)
    before = done(work)
    assert before >= 3 and not (tmp_path / "parts").exists()
    last = started(words)
    text, errors = last.communicate(timeout=200)
    assert last.returncode == 0, errors
    result = json.loads(text)
    assert result["resumed"] == before and not work.exists()
    assert hashes(tmp_path / "parts") == hashes(tmp_path / "whole")
    for name in ("before", "after", "steps", "tensors", "change"):
        assert result[name] == expected[name], name


def test_a_file_that_cannot_grow_leaves_what_is_done(tmp_path: Path) -> None:
    """The system's limit on the size of files stands for a full disk: both are errors of the write."""
    home = folder_of("llama", tmp_path / "model")
    words, work = command(home, tmp_path / "out"), tmp_path / "out.unfinished"
    killed_after(words, work, 2)
    before = done(work)
    full = started(words, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000)))
    text, errors = full.communicate(timeout=200)
    assert full.returncode == 2
    error = json.loads(text)["error"]
    assert "could not be written (File too large)" in error["message"] and str(work) in error["hint"], error
    told = [line for line in errors.strip().splitlines() if not line.startswith("…")]  # a slow machine tells progress
    assert len(told) == 2 and done(work) == before
    last = started(words)
    text, errors = last.communicate(timeout=200)
    assert last.returncode == 0, errors
    assert json.loads(text)["resumed"] == before


class _Stopped(Exception):
    pass


def _stop_at(count: int) -> Callable[[int, int, str], None]:
    def progress(at: int, total: int, text: str) -> None:
        if at == count and total:
            raise _Stopped

    return progress


def test_another_source_recipe_or_data_is_refused(tmp_path: Path) -> None:
    home = folder_of("llama", tmp_path / "model")
    recipe, score = recipe_of("preset", home=home), score_of(home)
    options = StreamOptions(output=tmp_path / "out", score=score)
    with pytest.raises(_Stopped):
        stream(str(home), recipe, options, _stop_at(2))
    other = Recipe((replace(recipe.steps[0], options=QuantizePresetOptions("w8a8_dynamic")),))
    with pytest.raises(ProjectError, match="unfinished job with other steps or options") as found:
        stream(str(home), other, options)
    assert "delete the folder" in found.value.hint
    with pytest.raises(ProjectError, match="other steps or options and other data"):
        stream(str(home), recipe, replace(options, score=replace(score, limit=3)))
    shard = sorted(home.glob("model-*.safetensors"))[0]
    facts = shard.stat()
    os.utime(shard, ns=(facts.st_atime_ns, facts.st_mtime_ns + 10**9))
    with pytest.raises(ProjectError, match="another model, or its files were changed"):
        stream(str(home), recipe, options)
    os.utime(shard, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    next((tmp_path / "out.unfinished").glob("states-*.bin")).write_bytes(b"short")
    with pytest.raises(ProjectError, match="is damaged"):
        stream(str(home), recipe, options)
    (tmp_path / "out.unfinished" / "progress.json").write_text("{")
    with pytest.raises(ProjectError, match="is damaged"):
        stream(str(home), recipe, options)


def test_what_cannot_be_streamed_is_refused_before_the_first_segment(tmp_path: Path) -> None:
    home = folder_of("llama", tmp_path / "model")
    recipe, out = recipe_of("preset", home=home), StreamOptions(output=tmp_path / "out")
    with pytest.raises(OptionsError, match="nothing to do"):
        stream(str(home), recipe, StreamOptions())
    with pytest.raises(PassError, match="smoothquant after gptq"):
        stream(str(home), recipe_of("preset", "gptq", "smoothquant", home=home), out)
    with pytest.raises(ExportError, match="nothing to write"):
        stream(str(home), Recipe(), out)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "file").touch()
    with pytest.raises(ExportError, match="exists already"):
        stream(str(home), recipe, out)
    with alone_in(tmp_path / "busy"), pytest.raises(JobError, match="Another process"), alone_in(tmp_path / "busy"):
        pass
    conv = folder_of("gpt2", tmp_path / "gpt2")
    with pytest.raises(EspalierError, match="Conv1D"):
        stream(str(conv), recipe, StreamOptions(output=tmp_path / "new"))
    shard = sorted(home.glob("model-*.safetensors"))[0]
    shard.write_bytes(shard.read_bytes()[:-100])
    with pytest.raises(EspalierError, match="cut off"):
        stream(str(home), recipe, StreamOptions(score=score_of(home)))
    shard.unlink()
    with pytest.raises(EspalierError, match="has no file"):
        stream(str(home), recipe, StreamOptions(score=score_of(home)))
