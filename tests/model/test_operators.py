"""Operators that code registers with torch are there whenever a graph that calls them runs."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from espalier.model.graph.operators import REGISTERED_BY, foreign_operators
from espalier.model.opening import needs_source
from tests.language_models import text_of, write_tokenizer
from tests.model.zoo import case
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
OWN = """
import torch
from torch import nn

@torch.library.custom_op("mine::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2

@double.register_fake
def _(x):
    return torch.empty_like(x)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 3)
    def forward(self, x):
        return double(self.a(x))

def make():
    torch.manual_seed(0)
    return Net().eval(), torch.randn(4, 8)
"""


def run(folder: Path, *words: str) -> str:
    """What a command in a process of its own prints, with the caches of `folder`."""
    given = {"ESPALIER_CACHE": str(folder / "cache"), "ESPALIER_STATE": str(folder / "state"),
             "PYTHONPATH": f"{ROOT / 'roots'}{os.pathsep}{ROOT}"}  # fmt: skip
    done = subprocess.run([sys.executable, "-m", "espalier", *words], cwd=folder, env=os.environ | given,
                          capture_output=True, text=True, timeout=2 * PATIENCE, check=False)  # fmt: skip
    assert not done.returncode, done.stderr
    return done.stdout


def test_operators_of_torch_and_of_what_registers_them_are_known() -> None:
    graph = case("bert").graph
    node = next(n for n in graph if n.call == "call_function")
    assert not foreign_operators(graph) and not needs_source(graph)
    for namespace in REGISTERED_BY:
        assert not needs_source(graph.replace(replace(node, target=f"{namespace}.anything.default")))
    assert foreign_operators(own := graph.replace(replace(node, target="mine.double.default"))) and needs_source(own)


@pytest.mark.slow
def test_a_model_of_own_operators_runs_whenever_it_is_opened(tmp_path: Path) -> None:
    """In processes that have not imported its code: from its source again, and from a project."""
    (tmp_path / "net.py").write_text(OWN)
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "d.npz", x=rng.normal(size=(30, 8)).astype("float32"), y=rng.integers(0, 3, 30))
    for size in ("4", "3"):
        assert "accuracy" in run(tmp_path, "evaluate", "net.py:make", "--data", "d.npz", "--batch-size", size)
    run(tmp_path, "trace", "net.py:make", "-o", "p.espalier")
    assert "accuracy" in run(tmp_path, "evaluate", "p.espalier", "--trust", "net.py", "--data", "d.npz")


@pytest.mark.slow
def test_a_mixture_of_experts_runs_from_the_cache_and_from_a_project(tmp_path: Path) -> None:
    """Its products are operators that a module of transformers registers, which a cached graph does not import."""
    from transformers import MixtralConfig, MixtralForCausalLM

    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    words = len(write_tokenizer(tmp_path / "m"))
    config = MixtralConfig(vocab_size=words, num_key_value_heads=2, num_local_experts=2, **sizes,
                           max_position_embeddings=64)  # fmt: skip
    MixtralForCausalLM(config).save_pretrained(tmp_path / "m")
    (tmp_path / "t.txt").write_text(text_of(300))
    for limit in ("2", "3"):
        assert "perplexity" in run(tmp_path, "evaluate", "m", "--data", "t.txt", "--limit", limit)
    run(tmp_path, "trace", "m", "-o", "p.espalier")
    assert "perplexity" in run(tmp_path, "evaluate", "p.espalier", "--data", "t.txt", "--limit", "1")
