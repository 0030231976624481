"""Every way in: configurations, factories, Hugging Face folders, exported programs, demos; and what wrong ones say."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from espalier.model.errors import SourceError
from espalier.model.opening import open_any, open_source
from espalier.model.sources.demos import DEMOS
from espalier.model.sources.source import load_source
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.model.trace.trace import trace
from espalier.model.trust import Origin
from tests.model.zoo import copied, fresh, run, same

TINY = "vocab_size=50&hidden_size=8&num_hidden_layers=1&num_attention_heads=2&intermediate_size=8"


def refused(spec: str, *inputs: str) -> SourceError:
    with pytest.raises(SourceError) as caught:
        load_source(spec, inputs, origin=Origin.TYPED)
    assert caught.value.message and caught.value.hint
    return caught.value


def traced_like_original(spec: str, tmp_path: Path) -> None:
    """The rebuilt model gives what the loaded one gives, on fresh inputs of another batch size."""
    opened = open_source(spec, tmp_path / "work", origin=Origin.TYPED)
    assert opened.loaded is not None
    inputs = fresh(opened.loaded.example, 3, 7)
    built = build(opened.project.base, opened.store, opened.callables)
    assert same(run(built, inputs), run(opened.loaded.model, inputs))


# -- configurations


def test_configurations_build_untrained_models() -> None:
    loaded = load_source(f"config:bert?{TINY}&task=sequence-classification&num_labels=5", seed=4)
    assert type(loaded.model).__name__ == "BertForSequenceClassification" and not loaded.model.training
    assert loaded.model.config.hidden_size == 8 and loaded.model.config.num_labels == 5
    assert list(loaded.example) == ["input_ids", "attention_mask"]
    assert loaded.info.inputs == ("input_ids", "attention_mask") and loaded.info.seed == 4
    assert loaded.info.spec.startswith("config:bert?") and loaded.info.name == "bert (configuration)"


def test_equal_seeds_give_equal_models() -> None:
    spec = f"config:bert?{TINY}"
    a, b, c = (load_source(spec, seed=s, origin=Origin.TYPED) for s in (1, 1, 2))
    assert all(torch.equal(x, y) for x, y in zip(a.model.parameters(), b.model.parameters(), strict=True))
    assert not all(torch.equal(x, y) for x, y in zip(a.model.parameters(), c.model.parameters(), strict=True))
    assert torch.equal(a.example["input_ids"], b.example["input_ids"])


def test_inputs_are_chosen_by_name() -> None:
    spec = f"config:bert?{TINY}&task=sequence-classification"
    assert list(load_source(spec, ("labels", "input_ids"), origin=Origin.TYPED).example) == ["labels", "input_ids"]
    assert list(load_source(spec, ("input_ids", "token_type_ids"), origin=Origin.TYPED).example) == [
        "input_ids",
        "token_type_ids",
    ]
    error = refused(spec, "input_idz")
    assert "input_idz" in error.message and "input_ids" in error.hint


def test_switches_stay_whatever_is_chosen() -> None:
    loaded = load_source("config:t5?vocab_size=50&d_model=8&d_kv=4&d_ff=8&num_layers=1&num_heads=2&task=seq2seq-lm",
                         ("input_ids", "decoder_input_ids"))  # fmt: skip
    assert loaded.example["use_cache"] is False


def test_values_are_numbers_lists_and_words() -> None:
    sizes = "embedding_size=8&hidden_sizes=[8,16]&depths=[1,1]&layer_type=basic"
    loaded = load_source(f"config:resnet?{sizes}&task=image-classification")
    config = loaded.model.config
    assert config.hidden_sizes == [8, 16] and config.layer_type == "basic"
    assert load_source(f"config:bert?{TINY}&hidden_dropout_prob=0.25").model.config.hidden_dropout_prob == 0.25
    eager = load_source(f"config:bert?{TINY}&attn_implementation=eager")
    assert eager.model.config._attn_implementation == "eager"


@pytest.mark.parametrize(("more", "pad"), [("", 0), ("&eos_token_id=7", 7), ("&pad_token_id=3", 3)])
def test_a_classifier_has_a_padding_token(more: str, pad: int) -> None:
    sizes = "vocab_size=61&n_embd=8&n_layer=1&n_head=2"
    loaded = load_source(f"config:gpt2?{sizes}&task=sequence-classification{more}")
    assert loaded.model.config.pad_token_id == pad and loaded.model(**loaded.example).logits.shape == (2, 2)
    assert [f"{pad} stands for it" in n for n in loaded.notes] == ([] if "pad" in more else [True])
    assert load_source(f"config:gpt2?{sizes}&task=causal-lm").model.config.pad_token_id is None


def test_models_without_weights_cost_no_memory() -> None:
    loaded = load_source("config:llama?weights=none&num_hidden_layers=2")  # 8B-sized layers
    assert sum(p.numel() for p in loaded.model.parameters()) > 500_000_000
    assert all(p.is_meta for p in loaded.model.parameters())


@pytest.mark.parametrize(
    "spec, part, hint",
    [
        ("config:brt", "'brt'", "bert"),
        ("config:bert?hidden_sise=8", "'hidden_sise'", "hidden_size"),
        ("config:bert?task=sequence-clasification", "sequence-clasification", "sequence-classification"),
        ("config:bert?weights=pretrained", "pretrained", "random"),
        (f"config:bert?{TINY}&num_attention_heads=3", "bert cannot be built", "values"),
        ("config:bert?hidden_size=-8", "bert", "values"),
        ("config:bert?hidden_size=big", "bert", "values"),
        ("config:vit?task=causal-lm", "vit cannot be built", "values"),
        ("config:", "''", "Valid names"),
        ("config:whisper?d_model=8&encoder_layers=1&decoder_layers=1&encoder_attention_heads=1&decoder_attention_heads=1",
         "input_features", "file.py:factory"),
    ],
)  # fmt: skip
def test_wrong_configurations(spec: str, part: str, hint: str) -> None:
    error = refused(spec)
    assert part in error.message and hint in error.hint
    assert "\n" not in error.message


# -- factories

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
        "x = 1\ndef make(:\n": "bad.py is no valid Python: invalid syntax (line 2: def make(:)",
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
    assert "no valid Python: invalid syntax (line 1" in refused(str(path)).message
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


# -- Hugging Face folders


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hf") / "tiny-bert"
    model = load_source(f"config:bert?{TINY}&task=sequence-classification").model
    model.save_pretrained(path)
    return path


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "tiny-bert"))


def test_folders_give_their_own_class_and_weights(folder: Path, tmp_path: Path) -> None:
    loaded = load_source(str(folder), origin=Origin.TYPED)
    assert type(loaded.model).__name__ == "BertForSequenceClassification" and not loaded.model.training
    assert loaded.info.spec == str(folder.resolve()) and loaded.info.name == "tiny-bert"
    assert loaded.files == (folder.resolve() / "model.safetensors",) and loaded.info.tokenizer is None
    opened = open_any(str(folder), tmp_path / "work", origin=Origin.TYPED)
    places = opened.store.places()
    assert {p.path for p in places.values()} == {folder.resolve() / "model.safetensors"}
    weights = opened.project.base.weights
    assert all(w.key in places for w in weights.values() if w.role == "parameter")
    traced_like_original(str(folder), tmp_path)


def test_tokenizers_are_noticed(folder: Path) -> None:
    (folder / "vocab.txt").write_text("[PAD]\n")
    assert load_source(str(folder), origin=Origin.TYPED).info.tokenizer == str(folder.resolve())


def test_wrong_folders(folder: Path, tmp_path: Path) -> None:
    assert "no config.json" in refused(str(tmp_path)).message
    weights = folder / "model.safetensors"
    data = weights.read_bytes()
    for change in (data[: len(data) // 2], b"", b"x" * 100):
        weights.write_bytes(change)
        assert "tiny-bert cannot be loaded" in refused(str(folder)).message
    weights.unlink()
    error = refused(str(folder))
    assert "no weights" in error.message and "model.safetensors" in error.hint
    weights.write_bytes(data)
    for text in ("{", "[]", '{"model_type": "no_such_model"}', "{}"):
        (folder / "config.json").write_text(text)
        assert "cannot be loaded" in refused(str(folder)).message


def test_remote_code_is_never_run(folder: Path) -> None:
    trap = folder / "trap"
    (folder / "evil.py").write_text(f"open({str(trap)!r}, 'w')\nclass C: pass\n")
    config = '{"model_type": "evil", "auto_map": {"AutoConfig": "evil.C", "AutoModel": "evil.C"}}'
    (folder / "config.json").write_text(config)
    refused(str(folder))
    assert not trap.exists()


def test_names_on_the_hub_are_told_when_offline() -> None:
    error = refused("hf:no-such-owner/no-such-model")
    assert "no-such-owner/no-such-model cannot be loaded" in error.message and "network" in error.hint


# -- exported programs


def test_exported_programs(tmp_path: Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)
            self.drop = nn.Dropout(0.5)

        def forward(self, x: Tensor, scale: Tensor) -> dict[str, Tensor]:
            return {"y": self.drop(self.layer(x)) * scale}

    torch.manual_seed(0)
    model = Net().eval()
    example = (torch.randn(3, 4),)
    free = {"x": {0: torch.export.Dim.AUTO}, "scale": None}
    program = torch.export.export(model, example, {"scale": torch.ones(1)}, strict=False, dynamic_shapes=free)
    path = tmp_path / "net.pt2"
    torch.export.save(program, path)
    loaded = load_source(str(path), origin=Origin.TYPED)
    assert loaded.info.name == "net.pt2" and list(loaded.example) == ["x", "scale"]
    store = WeightStore(tmp_path)
    traced = trace(loaded.model, loaded.example, store, loaded.program)
    assert [n.op for n in traced.graph][-4:] == ["linear", "dropout", "mul", "output"]
    assert traced.dynamic == {"batch": ("x[0]",)}

    inputs: dict[str, Any] = {"x": torch.randn(5, 4), "scale": torch.full((1,), 2.0)}
    built = build(traced.graph, store)
    assert same(run(built, inputs), run(model, copied(inputs)))
    assert list(built(**inputs)) == ["y"]


def test_wrong_exported_programs(tmp_path: Path) -> None:
    assert "no file" in refused(f"{tmp_path}/none.pt2").message
    path = tmp_path / "bad.pt2"
    for data in (b"", b"hello", b"PK\x03\x04"):
        path.write_bytes(data)
        error = refused(str(path))
        assert "bad.pt2 is not a readable torch.export file" in error.message and "torch.export.save" in error.hint


# -- demos


@pytest.mark.parametrize("name", sorted(DEMOS))
def test_demos_open(name: str, tmp_path: Path) -> None:
    opened = open_any(f"demo:{name}", tmp_path)
    source = opened.project.source
    assert source.spec == f"demo:{name}" and source.name and source.data == DEMOS[name].data
    assert (source.tokenizer is not None) == (DEMOS[name].folder / "tokenizer.json").exists()
    assert {p.path for p in opened.store.places().values()} == {DEMOS[name].folder / "model.safetensors"}
    assert opened.loaded is not None
    assert all(k == "use_cache" or v.shape[0] == 2 for k, v in opened.loaded.example.items())


def test_demos_that_are_none() -> None:
    error = refused("demo:review")
    assert "review" in error.message and "reviews" in error.hint


# -- anything else


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "net.pt", "net.pth", "epoch.ckpt"])
def test_weights_alone_are_no_model(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    error = refused(str(path))
    assert error.message == f"There is no file {str(path)!r}." and error.hint == "Check the path."
    path.write_bytes(b"\x80\x04]")
    error = refused(str(path))
    assert "weights without a model" in error.message and "config.json" in error.hint


@pytest.mark.parametrize("spec", ["nothing-here", "/no/such/path", "", "gpt2", "http://example.com/x", "onnx:model"])
def test_unknown_sources_name_the_known_kinds(spec: str) -> None:
    error = refused(spec)
    assert "config:TYPE" in error.hint and "demo:NAME" in error.hint


def test_files_of_other_kinds_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    assert "notes.txt is not a model" in refused(str(path)).message


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


def test_a_demo_takes_its_labels_by_name(tmp_path: Path) -> None:
    """The labs' task: with labels the loss stands in the graph, and it is torch's own; without, all is as before."""
    opened = open_source("demo:reviews", tmp_path, ("input_ids", "attention_mask", "labels"))
    graph = opened.project.base
    assert [n.target for n in graph.placeholders] == ["input_ids", "attention_mask", "labels"]
    assert graph.output_names == ("loss", "logits") and any(n.op == "cross_entropy" for n in graph)
    assert opened.loaded is not None
    example = opened.loaded.example
    with torch.no_grad():
        loss, logits = build(graph, opened.store)(**example).values()
    assert torch.equal(loss, torch.nn.functional.cross_entropy(logits, example["labels"]))
    assert list(load_source("demo:reviews").example) == ["input_ids", "attention_mask"]


def test_a_model_that_names_no_mask_is_given_none(tmp_path: Path) -> None:
    """torch.export refuses free sizes of what lands among further keywords, which would fix all sizes."""
    sizes = "hidden_size=16&num_hidden_layers=1&intermediate_size=16&vocab_size=50"
    loaded = load_source(f"config:fnet?{sizes}&task=sequence-classification")
    assert "input_ids" in loaded.example and "attention_mask" not in loaded.example
    store = WeightStore(tmp_path)
    traced = trace(loaded.model, {"input_ids": loaded.example["input_ids"]}, store)
    assert not traced.fixed and traced.dynamic["seq"] == ("input_ids[1]",), traced.problems
    ids = torch.randint(0, 50, (3, 7))
    built = build(traced.graph, store)(input_ids=ids)
    assert torch.equal(built["logits"], loaded.model.eval()(input_ids=ids).logits)
