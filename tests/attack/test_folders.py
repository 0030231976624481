"""Hugging Face folders, adapters and recipes that bring code: none of it runs."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from espalier.app.cli import main
from espalier.model.errors import SourceError
from espalier.model.opening import open_any
from tests.attack.pt2_files import Touch


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """What foreign code writes when it runs."""
    return tmp_path / "ran"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sound folder."""
    config = BertConfig(num_hidden_layers=1, hidden_size=16, num_attention_heads=2, intermediate_size=32, vocab_size=50)
    BertForSequenceClassification(config).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def configured(folder: Path, **entries: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **entries}))


def saved(value: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def test_weights_that_are_a_pickle_of_more_do_not_load(folder: Path, marker: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(saved({"bert.pooler.dense.weight": Touch(marker)}))
    with pytest.raises(SourceError):
        open_any(str(folder), tmp_path / "work")
    assert not marker.exists()


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False])
def test_code_beside_a_configuration_does_not_run(known: bool, folder: Path, marker: Path, tmp_path: Path) -> None:
    code = f"open({str(marker)!r}, 'w').close()\nfrom transformers import BertConfig as C\n"
    code += "from transformers import BertForSequenceClassification as M\n"
    (folder / "modeling_own.py").write_text(code)
    classes = {"AutoConfig": "modeling_own.C", "AutoModelForSequenceClassification": "modeling_own.M"}
    configured(folder, auto_map=classes, **({} if known else {"model_type": "never_heard_of"}))
    try:
        open_any(str(folder), tmp_path / "work")
    except SourceError as error:
        assert error.hint and not known
    assert not marker.exists()


@pytest.mark.slow
def test_a_tokenizer_brings_no_code(folder: Path, marker: Path, tmp_path: Path) -> None:
    (folder / "tokenization_own.py").write_text(f"open({str(marker)!r}, 'w').close()\nclass T: pass\n")
    told = {"auto_map": {"AutoTokenizer": ["tokenization_own.T", None]}, "tokenizer_class": "T"}
    (folder / "tokenizer_config.json").write_text(json.dumps(told))
    data = tmp_path / "d.csv"
    data.write_text("text,label\ngood,1\nbad,0\n")
    main(["evaluate", str(folder), "--data", str(data)])
    assert not marker.exists()


@pytest.mark.slow
def test_a_pickled_adapter_is_refused(folder: Path, marker: Path, tmp_path: Path) -> None:
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2, "target_modules": ["query"]}))
    (adapter / "adapter_model.bin").write_bytes(saved({"base_model.model.x": Touch(marker)}))
    recipe = tmp_path / "r.json"
    recipe.write_text(json.dumps({"steps": [{"pass": "load_adapter", "options": {"folder": str(adapter)}}]}))
    assert main(["run", str(folder), str(recipe)]) == 2
    assert not marker.exists()


@pytest.mark.slow
def test_a_module_in_the_folder_shadows_nothing(
    folder: Path, marker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opened from within: the working folder's files are not imported."""
    for name in ("torch", "numpy", "tokenizers", "sitecustomize"):
        (folder / f"{name}.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    monkeypatch.chdir(folder)
    open_any(".", tmp_path / "work")
    shutil.rmtree(tmp_path / "work", ignore_errors=True)
    assert not marker.exists()
