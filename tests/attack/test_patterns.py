"""Patterns that never end in `re`: in recipes, adapters and forms they end in two sentences, soon."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from transformers import BertConfig, BertForSequenceClassification

from espalier.app.cli import main
from espalier.model.errors import OptionsError
from espalier.model.opening import open_any
from espalier.passes.select import Select, chosen, matches
from tests.patience import budget

ENDLESS = r"^(\w+)+!$|^(?:(?:.|_){1,9}){1,99}\W\W$"


@pytest.mark.parametrize("pattern", [ENDLESS, "(?:(?:(?:a{1000}){1000}){1000}){1000}", "(" * 3000 + ")" * 3000, "("])
def test_a_recipe(pattern: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "r.json"
    options = {"rules": [{"select": {"by": "regex", "values": [pattern]}, "formats": {}}]}
    recipe.write_text(json.dumps({"steps": [{"pass": "quantize", "options": options}]}))
    main(["report", "demo:digits-mlp"])  # what is imported only once
    start = time.process_time()
    assert main(["run", "demo:digits-mlp", str(recipe)]) == 2
    assert time.process_time() - start < budget(5)  # of which the pattern takes half a second
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 2 and all(len(line) < 300 for line in told)


@pytest.mark.slow
def test_a_selection_asked_node_by_node_ends(tmp_path: Path) -> None:
    graph = open_any("demo:reviews", tmp_path).project.graph
    assert graph
    select, start = Select("regex", (ENDLESS,)), time.thread_time()
    faults = 0
    for node in graph:
        try:
            matches(node, select)
        except OptionsError:
            faults += 1
    with pytest.raises(OptionsError, match="takes more than"):
        chosen(graph, select, lambda n: True, "looked at")
    assert faults and time.thread_time() - start < budget(2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # PEFT asks transformers
@pytest.mark.parametrize("patterns", [{ENDLESS: 4}, {"(": 4}, {"a{1000}" * 9: 4}, ["a"]])
def test_an_adapter(patterns: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from peft import LoraConfig, get_peft_model

    config = BertConfig(num_hidden_layers=1, hidden_size=16, num_attention_heads=2, intermediate_size=32, vocab_size=50)
    network = BertForSequenceClassification(config)
    network.save_pretrained(tmp_path / "model")
    get_peft_model(network, LoraConfig(r=2, target_modules=["query"])).save_pretrained(str(tmp_path / "adapter"))
    file = tmp_path / "adapter" / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "alpha_pattern": patterns}))
    recipe = tmp_path / "r.json"
    steps = [{"pass": "load_adapter", "options": {"folder": str(tmp_path / "adapter")}}]
    recipe.write_text(json.dumps({"steps": steps}))
    capsys.readouterr()
    assert main(["run", str(tmp_path / "model"), str(recipe)]) == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 2 and "alpha_pattern" in told[0]
