"""Factories in a user's file, and what wrong ones say."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from espalier.model.opening import open_source
from espalier.model.sources.source import load_source
from espalier.model.torch.build import build
from espalier.model.trust import Origin
from tests.model.source_cases import refused, traced_like_original
from tests.model.zoo import run

FACTORIES = '''
"""A user's file."""
from __future__ import annotations
import sys
from dataclasses import dataclass
import torch
from torch import nn
from transformers import BertConfig, BertModel

@dataclass
class Sizes:
    width: int = 3

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, Sizes().width)
    def forward(self, x, scale=None):
        y = self.layer(x)
        return y if scale is None else y * scale

def keywords():
    print("hello from the factory")
    return Net(), {"x": torch.randn(2, 4)}

def tensor():
    return Net(), torch.randn(2, 4)

def positions():
    return Net(), (torch.randn(2, 4), torch.randn(2, 1))

def listed():
    return [Net(), [torch.randn(2, 4)]]

def with_config():
    return BertModel(BertConfig(vocab_size=50, hidden_size=8, num_hidden_layers=1, num_attention_heads=2))

def bare():
    return Net()

def empty():
    return Net(), {}

def wrong_example():
    return Net(), 5

def number():
    return 7

def nothing():
    pass

def triple():
    return Net(), {"x": torch.randn(2, 4)}, 1

def raising():
    values = [1, 2]
    return values[5]

def leaving():
    sys.exit(3)

def silent():
    raise ValueError

def broken():
    class Broken(nn.Module):
        def forward(self, x):
            return x @ torch.zeros(7, 7)
    return Broken(), {"x": torch.randn(2, 4)}

NOT_CALLABLE = 3
'''


@pytest.fixture(scope="module")
def factories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("a folder") / "my models.py"
    path.write_text(FACTORIES)
    return path


@pytest.mark.parametrize("name, inputs", [("keywords", ("x",)), ("tensor", ("x",)), ("positions", ("x", "scale"))])
def test_factories_with_examples(name: str, inputs: tuple[str, ...], factories: Path, tmp_path: Path) -> None:
    spec = f"{factories}:{name}"
    loaded = load_source(spec, origin=Origin.TYPED)
    assert isinstance(loaded.model, nn.Module) and not loaded.model.training
    assert loaded.info.inputs == inputs == tuple(loaded.example)
    assert loaded.info.spec == str(factories.resolve()) + f":{name}" and loaded.info.name == f"{name} (my models.py)"
    traced_like_original(spec, tmp_path)


@pytest.mark.slow
def test_factories_of_transformers_models_need_no_example(factories: Path, tmp_path: Path) -> None:
    assert list(load_source(f"{factories}:with_config", origin=Origin.TYPED).example) == ["input_ids", "attention_mask"]
    traced_like_original(f"{factories}:with_config", tmp_path)


def test_factories_are_found_from_a_relative_path(factories: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(factories.parent)
    assert load_source("my models.py:tensor", origin=Origin.TYPED).info.spec == f"{factories.resolve()}:tensor"


def test_factories_obey_the_seed(factories: Path) -> None:
    a, b, c = (load_source(f"{factories}:tensor", seed=s, origin=Origin.TYPED).model.layer.weight for s in (1, 1, 2))
    assert torch.equal(a, b) and not torch.equal(a, c)


@pytest.mark.parametrize(
    "name, part, hint",
    [
        ("bare", "without example inputs", "(module, "),
        ("empty", "without example inputs", "(module, "),
        ("wrong_example", "without example inputs", "(module, "),
        ("number", "returned int, not a torch module", "module"),
        ("nothing", "returned NoneType, not a torch module", "module"),
        ("triple", "returned tuple, not a torch module", "module"),
        ("listed", "returned list, not a torch module", "module"),
        ("raising", "raising() in my models.py raised IndexError: list index out of range (line 58)", "my models.py"),
        ("leaving", "leaving() in my models.py raised SystemExit: 3 (line 61)", "my models.py"),
        ("silent", "raised ValueError: ValueError (line 64)", "my models.py"),
        ("nowhere", "has no function 'nowhere'", "function"),
        ("NOT_CALLABLE", "has no function 'NOT_CALLABLE'", "function"),
    ],
)
def test_wrong_factories(name: str, part: str, hint: str, factories: Path) -> None:
    error = refused(f"{factories}:{name}")
    assert part in error.message and hint in error.hint


def test_wrong_files(factories: Path, tmp_path: Path) -> None:
    assert "no file" in refused(f"{tmp_path}/none.py:make").message
    assert "needs the name of a function" in refused(str(factories)).message
    assert "my models.py:" in refused(str(factories)).hint
    for text, part in {
        "import nonsense_xyz\n": "ModuleNotFoundError: No module named 'nonsense_xyz' (line 1)",
        "x = 1\ndef make(:\n": "bad.py is not valid Python: invalid syntax (line 2: def make(:)",
        "\n\nraise KeyboardInterrupt()": "KeyboardInterrupt",
        "\n1/0\n": "ZeroDivisionError: division by zero (line 2)",
    }.items():
        path = tmp_path / "bad.py"
        path.write_text(text)
        if "KeyboardInterrupt" in part:
            with pytest.raises(KeyboardInterrupt):
                load_source(f"{path}:make", origin=Origin.TYPED)
        else:
            error = refused(f"{path}:make")
            assert part in error.message and "bad.py" in error.message + error.hint


def test_a_file_without_a_function_s_name_tells_its_syntax_error_first_or_names_its_functions(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("def make(:\n")
    assert "not valid Python: invalid syntax (line 1" in refused(str(path)).message
    path.write_text("def _own(): ...\ndef build(): ...\ndef other(): ...\n")
    error = refused(str(path))
    assert "needs the name of a function" in error.message
    assert error.hint == "Write mine.py:build. It has: build, other."
    path.write_bytes(b"x = 1\0")
    assert "mine.py" in refused(str(path)).message


def test_models_that_do_not_run_are_told_when_traced(factories: Path, tmp_path: Path) -> None:
    from espalier.model.errors import TraceError

    with pytest.raises(TraceError, match="neither exports nor runs") as caught:
        open_source(f"{factories}:broken", tmp_path, origin=Origin.TYPED)
    assert "RuntimeError" in caught.value.message


CACHING = """
import torch
import transformers as hf

def t5():
    sizes = dict(vocab_size=64, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, decoder_start_token_id=0)
    inputs = {k: torch.randint(0, 64, (2, n)) for k, n in (("input_ids", 5), ("decoder_input_ids", 4))}
    return hf.T5ForConditionalGeneration(hf.T5Config(**sizes)).eval(), inputs

def qwen2():
    sizes = dict(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
                 num_key_value_heads=2)
    return hf.Qwen2ForCausalLM(hf.Qwen2Config(**sizes)).eval(), {"input_ids": torch.randint(0, 64, (2, 5))}
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["t5", "qwen2"])
def test_a_factory_of_a_model_with_a_cache_is_exported(tmp_path: Path, name: str) -> None:
    (tmp_path / "caching.py").write_text(CACHING)
    opened = open_source(f"{tmp_path / 'caching.py'}:{name}", tmp_path / "work", origin=Origin.TYPED)
    assert opened.project.base.runs == "graph" and opened.project.base.output_names[0] == "logits"
    assert opened.loaded is not None
    inputs = opened.loaded.example
    built = build(opened.project.base, opened.store, opened.callables)
    assert torch.allclose(run(built, inputs)[0], run(opened.loaded.model, inputs)[0], atol=1e-5)


FROZEN = """
from dataclasses import dataclass
import torch
from torch import nn

@dataclass(frozen=True)
class Config:
    use_cache: bool = True

class Exclusive(nn.Module):
    def __init__(self):
        super().__init__()
        self.config, self.fc = Config(), nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(x) if self.config.use_cache else -self.fc(x)

def build():
    return Exclusive(), torch.ones(3, 4)
"""


def test_a_models_own_configuration_is_left_alone(tmp_path: Path) -> None:
    import transformers

    assert transformers.PreTrainedModel  # loaded, as it is where one such model was opened before
    (tmp_path / "frozen.py").write_text(FROZEN)
    opened = open_source(f"{tmp_path / 'frozen.py'}:build", tmp_path / "work", origin=Origin.TYPED)
    assert opened.loaded is not None and opened.loaded.model.config.use_cache is True
