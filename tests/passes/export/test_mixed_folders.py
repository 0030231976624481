"""No export writes a model beside an adapter, or an adapter beside a model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from espalier.app.cli import main
from tests.passes.export.models import made

QUANTISE = """
[[steps]]
pass = "quantize"
[[steps.options.rules]]
select = {by = "type", values = ["linear"]}
formats = {weight = "scaled_integer(width=8)"}
"""
LORA = '[[steps]]\npass = "lora"\noptions = {rank = 2}\n'


def listing(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


def last_error(capsys: pytest.CaptureFixture[str]) -> str:
    """Of --json; transformers may print above it."""
    return str(json.loads(capsys.readouterr().out.strip().splitlines()[-1])["error"]["message"])


@pytest.mark.slow
def test_a_folder_has_one_of_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was there stays, and the error names the file; an empty folder takes either."""
    source, recipe = made("llama", tmp_path / "source"), tmp_path / "lora.toml"
    recipe.write_text(LORA)
    project, adapter = str(tmp_path / "p.espalier"), tmp_path / "adapter"
    assert main(["run", str(source), str(recipe), "-o", project]) == 0
    assert main(["export", project, "--as", "adapter", "-o", str(adapter)]) == 0
    before = listing(adapter)
    for form in ("safetensors", "compressed-tensors"):
        capsys.readouterr()
        target = project if form == "safetensors" else quantised(source, tmp_path)
        assert main(["export", target, "--as", form, "-o", str(adapter), "--json"]) == 2
        assert "holds an adapter" in last_error(capsys)
        assert listing(adapter) == before
    copy = tmp_path / "copy"
    shutil.copytree(source, copy)
    before = listing(copy)
    assert main(["export", project, "--as", "adapter", "-o", str(copy), "--json"]) == 2
    assert "holds a model" in last_error(capsys) and listing(copy) == before


def quantised(source: Path, folder: Path) -> str:
    recipe, project = folder / "q.toml", folder / "q.espalier"
    recipe.write_text(QUANTISE)
    assert main(["run", str(source), str(recipe), "-o", str(project)]) == 0
    return str(project)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["safetensors", "compressed-tensors"])
def test_weights_in_another_layout_stay_and_refuse_the_export(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """transformers would read one file before shards, vLLM the shards that an index names."""
    import transformers

    source, out = made("llama", tmp_path / "source"), tmp_path / "out"
    target = quantised(source, tmp_path)
    model = transformers.LlamaForCausalLM.from_pretrained(source)
    model.save_pretrained(out, max_shard_size="100KB")
    before = listing(out)
    assert len(before) > 4
    capsys.readouterr()
    assert main(["export", target, "--as", form, "-o", str(out), "--json"]) == 2
    assert "holds weights in other files (model-00001-of-" in last_error(capsys) and listing(out) == before
    for file in out.glob("model-*"):
        file.unlink()
    (out / "notes.txt").write_text("mine")
    (out / "model.safetensors.index.json").unlink()
    for _ in range(2):
        assert main(["export", target, "--as", form, "-o", str(out)]) == 0
    assert {p.name for p in out.iterdir()} == {
        "config.json", "generation_config.json", "model.safetensors", "notes.txt"}  # fmt: skip
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".espalier")]
