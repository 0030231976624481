"""torchao by transformers: folders of its tensors, the float folder, and torchao's own quantiser of that."""

from __future__ import annotations

import contextlib
import importlib.util
import io
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from espalier.model.document.project import Project
from espalier.model.errors import PASSING, first_line
from espalier.model.sources.huggingface import quiet
from espalier.model.store.weights import WeightStore
from espalier.passes.export.checking.peak_memory import peak_memory
from espalier.passes.export.checking.target import TARGETS, Baseline, Inputs, Runner, Target
from espalier.passes.export.checkpoint import write_checkpoint
from espalier.passes.export.torchao.configs import config_by_module
from espalier.passes.export.torchao.folder import FILE, schemes
from espalier.passes.export.transformers_folder import load, model_class
from espalier.passes.verify import tensors

if TYPE_CHECKING:
    from torch import Tensor

OWN_QUANTISER, PLAIN = "torchao.quantize_", "float"
_MEMORY = """
import json, os, numpy, torch, transformers, transformers.quantizers, transformers.modeling_utils
torch.set_num_threads(threads)
folder = os.path.dirname(path)
config = json.load(open(os.path.join(folder, "config.json")))
cls = getattr(transformers, config["architectures"][0])
before = peak()
model = cls.from_pretrained(folder, trust_remote_code=False).eval()
given = {k: torch.from_numpy(v) for k, v in numpy.load(inputs).items()}
with torch.no_grad():
    for _ in range(calls):
        model(**given)
"""


def _name() -> str:
    return f"torchao {version('torchao')} by transformers {version('transformers')}"


def _missing() -> str:
    return "" if importlib.util.find_spec("torchao") else "torchao"


@contextlib.contextmanager
def _threads(count: int) -> Generator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _opened(path: Path, threads: int) -> Runner:
    import torch

    model = load(path.parent)
    model.config.use_cache = False  # which is no result of the graph

    def run(inputs: Inputs) -> list[Tensor]:
        with torch.no_grad(), _threads(threads):
            return tensors(dict(model(**inputs)))

    return run


def _baselines(project: Project, store: WeightStore, folder: Path, batches: Sequence[Inputs]) -> Iterator[Baseline]:
    """The model without formats, and what torchao makes of that for the modules and kinds of tensors of the file."""
    plain = replace(project, graph=project.graph.replace(*(replace(n, precision={}) for n in project.graph)))
    write_checkpoint(plain, store, folder / PLAIN)
    yield Baseline("float", folder / PLAIN / FILE)
    try:
        _quantise(project, folder / "quantised", batches[0])
        yield Baseline(OWN_QUANTISER, folder / "quantised" / FILE)
    except PASSING:
        raise
    # torchao raises whatever it meets, of shapes and types that a configuration does not take.
    except Exception as error:  # noqa: BLE001
        yield Baseline(OWN_QUANTISER, None, first_line(error)[:200])


def _quantise(project: Project, folder: Path, batch: Inputs) -> None:
    """Quantise the float model by the configurations of its modules, save it as transformers does, and run it."""
    from transformers import TorchAoConfig

    source = folder.with_name(PLAIN)
    config = TorchAoConfig(config_by_module(schemes(project)), include_input_output_embeddings=True)
    with quiet(), contextlib.redirect_stderr(io.StringIO()):
        model = model_class(source).from_pretrained(source, trust_remote_code=False, quantization_config=config)
        model.save_pretrained(folder, max_shard_size="1TB")
    _opened(folder / FILE, 1)(batch)


def _memory(path: Path, threads: int, inputs: Inputs) -> int | None:
    return peak_memory(_MEMORY, path, threads, inputs)


TARGETS.add("torchao", Target(
    _name, _missing, _opened, _baselines, _memory, lambda path: path.with_name("config.json"),
))  # fmt: skip
