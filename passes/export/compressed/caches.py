"""The static scales of cached keys and values, as compressed-tensors reads them beside an attention's weights."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from espalier.model.formats.scaled import ScaledFormat
from espalier.model.graph.caches import PART, cache_nodes
from espalier.model.graph.graph import Graph, Node
from espalier.model.store.weights import WeightStore
from espalier.passes.export.smaller_config import kept_layers, renumbered
from espalier.passes.export.targets.kv_cache import cache_scheme

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from espalier.model.document.project import Project


def cache_tensors(project: Project, store: WeightStore, dtype: torch.dtype) -> dict[str, Tensor]:
    """`…self_attn.k_scale` and `v_scale`: [1] for a tensor, [heads, 1, 1] for heads; none for caches in float."""
    import torch

    scheme, kept = cache_scheme(project.graph), kept_layers(project.base, project.graph)
    if scheme is None:
        return {}
    shape = (1,) if scheme.strategy == "tensor" else (-1, 1, 1)
    return {
        f"{renumbered(node.module_path, kept)}.{str(node.attrs[PART])[0]}_scale":
            torch.from_numpy(_scale(node, project.graph, store)).reshape(shape).to(dtype)
        for node in cache_nodes(project.graph)
    }  # fmt: skip


def _scale(node: Node, graph: Graph, store: WeightStore) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """The scale as the format stores it, float32."""
    chosen = node.precision["data_out"]
    assert chosen.scale is not None and isinstance(chosen.format, ScaledFormat)
    given = store.get(graph.weights[chosen.scale].key or "").float32()
    stored = chosen.format.stored_scale(chosen.format.encode_with(np.zeros((*given.shape[:-1], 1), "f4"), given))
    return np.asarray(stored, np.float32)


UNROUNDED = (
    "This version of transformers runs the folder with its cache in float: compressed-tensors does not recognise its "
    "attentions. The results were compared with keys and values rounded by compressed-tensors with the folder's scales."
)


def round_caches(model: Any, folder: Path) -> bool:
    """Let the attentions of a loaded model round keys and values by compressed-tensors (0.20) as the folder says.

    For attentions that it does not give its own cache (it looks for an argument `past_key_values`, which those of
    transformers 5.24 call `cache`). False where there are none.
    """
    from compressed_tensors.quantization import QuantizationArgs
    from safetensors.torch import load_file

    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))["quantization_config"]
    if "kv_cache_scheme" not in config:
        return False
    args, tensors = QuantizationArgs(**config["kv_cache_scheme"]), load_file(folder / "model.safetensors")
    paths = [name.removesuffix(".k_scale") for name in tensors if name.endswith(".k_scale")]
    modules = {path: model.get_submodule(path) for path in paths}
    left = {p: m for p, m in modules.items() if not hasattr(m, "k_scale")}
    for path, module in left.items():
        cache = _Rounding(args, tensors[f"{path}.k_scale"], tensors[f"{path}.v_scale"])
        module.register_forward_pre_hook(
            lambda _, given, named, held=cache: (given, {**named, "cache": held}), with_kwargs=True
        )
    return bool(left)


@dataclass(frozen=True)
class _Rounding:
    """What an attention takes for its cache: rounds the keys and values of a run over a whole text."""

    args: Any
    key: Tensor
    value: Tensor

    def update(self, keys: Tensor, values: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """The rounded keys and values."""
        from compressed_tensors.quantization.lifecycle.forward import fake_quantize

        return tuple(fake_quantize(x, s, None, self.args) for x, s in ((keys, self.key), (values, self.value)))  # type: ignore[return-value]
