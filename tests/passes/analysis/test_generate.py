"""Texts that a language model continues, compared with transformers' own generation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import espalier as es
from espalier.app.cli import main
from espalier.model.errors import DataError, GraphError
from tests.language_models import text_of, write_model

PROMPT = text_of(6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpt2")
    write_model(folder, "gpt2")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("prompt", [PROMPT, "a"], ids=["several", "one"])
def test_the_most_probable_tokens_are_those_of_transformers(prompt: str, folder: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForCausalLM.from_pretrained(folder).eval()
    ids = tokenizer(prompt, return_tensors="pt")
    assert (ids["input_ids"].shape[1] == 1) == (prompt == "a")
    wanted = model.generate(**ids, max_new_tokens=12, do_sample=False, pad_token_id=0)[0, ids["input_ids"].shape[1] :]
    found = es.open(str(folder)).run("generate", prompt=prompt, new_tokens=12)
    assert found.summary["text"] == tokenizer.decode(wanted) and found.summary["tokens"] == len(wanted)
    assert found.summary["baseline_text"] == found.summary["text"] and found.summary["kl"] == 0


@pytest.mark.slow
def test_the_divergence_is_of_the_same_text(folder: Path) -> None:
    m = es.open(str(folder))
    base = m.to_torch().eval()
    m.quantize("linear", weight="integer(width=2)")
    now = m.to_torch().eval()
    found = m.run("generate", prompt=PROMPT, new_tokens=5)
    assert found.summary["baseline"] == "opened"
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    ids, total = tokenizer(PROMPT, return_tensors="pt")["input_ids"], []
    for row in found.rows:
        with torch.no_grad():
            p, q = (
                net(input_ids=ids, attention_mask=torch.ones_like(ids))["logits"][0, -1].double().log_softmax(-1)
                for net in (base, now)
            )
        total.append(float((p.exp() * (p - q)).sum()))
        assert row["kl"] == pytest.approx(total[-1], rel=1e-4, abs=1e-9)
        token = q.argmax()
        assert row["token"] == tokenizer.decode([int(token)])
        assert row["probability"] == pytest.approx(float(q.max().exp()))
        ids = torch.cat([ids, token.view(1, 1)], 1)
    assert found.summary["kl"] == pytest.approx(sum(total) / len(total)) and max(total) > 0


@pytest.mark.slow
def test_drawn_tokens_follow_the_seed_and_the_distribution(folder: Path) -> None:
    m = es.open(str(folder))
    options: dict[str, Any] = {"prompt": PROMPT, "new_tokens": 8, "temperature": 1.5}
    first, again = (m.run("generate", seed=1, **options).summary["text"] for _ in range(2))
    assert first == again != m.run("generate", seed=2, **options).summary["text"]
    assert m.run("generate", seed=3, **options, top_k=1).summary["text"] == m.run(
        "generate", prompt=PROMPT, new_tokens=8).summary["text"]  # fmt: skip


@pytest.mark.slow
def test_what_cannot_be_continued(folder: Path) -> None:
    m = es.open(str(folder))
    with pytest.raises(DataError, match="has no tokens"):
        m.run("generate", prompt="")
    with pytest.raises(DataError, match="the model takes 64"):
        m.run("generate", prompt=text_of(200))
    ended = m.run("generate", prompt=text_of(40), new_tokens=100)
    assert ended.summary["tokens"] + ended.summary["prompt_tokens"] <= 64, "the model has no more positions"
    with pytest.raises(GraphError, match="no scores of tokens"):
        es.open("demo:reviews").run("generate", prompt=PROMPT)


@pytest.mark.slow
def test_the_command_shows_both_texts(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    m = es.open(str(folder))
    m.quantize("linear", weight="integer(width=2)")
    m.save(tmp_path / "small.espalier")
    wanted = m.run("generate", prompt=PROMPT, new_tokens=4).summary
    assert main(["generate", str(tmp_path / "small.espalier"), PROMPT, "--new-tokens", "4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {k: found[k] for k in wanted} == wanted and len(found["rows"]) == 4 and found["cached"]
    assert main(["generate", str(tmp_path / "small.espalier"), PROMPT, "--no-kv-cache", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cached"] is False
    assert main(["generate", str(tmp_path / "small.espalier"), PROMPT, "--new-tokens", "4"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(PROMPT) and "opened: " in out and "nats per token" in out
    assert main(["generate", "demo:reviews", "a film"]) == 2
