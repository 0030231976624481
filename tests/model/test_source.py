"""Configurations, Hugging Face folders, exported programs, demos; and what wrong ones say."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from espalier.model.opening import open_any, open_source
from espalier.model.sources.demos import DEMOS
from espalier.model.sources.source import load_source
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.model.trace.trace import trace
from espalier.model.trust import Origin
from tests.model.source_cases import refused, traced_like_original
from tests.model.zoo import copied, run, same

TINY = "vocab_size=50&hidden_size=8&num_hidden_layers=1&num_attention_heads=2&intermediate_size=8"


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


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hf") / "tiny-bert"
    model = load_source(f"config:bert?{TINY}&task=sequence-classification").model
    model.save_pretrained(path)
    return path


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "tiny-bert"))


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.parametrize("name", ["Trainer", "pipeline", "utils", "AutoConfig", "NoSuchClass", ""])
def test_a_configuration_names_no_class_but_a_model(name: str) -> None:
    from types import SimpleNamespace

    import transformers

    from espalier.model.sources.huggingface import model_class

    assert model_class(SimpleNamespace(architectures=[name])) is transformers.AutoModel
    assert model_class(SimpleNamespace(architectures=["BertModel"])) is transformers.BertModel
