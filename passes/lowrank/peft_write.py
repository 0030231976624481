"""Writes adapters as a folder that PEFT opens on the base model: adapter_config.json and adapter_model.safetensors."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from espalier.model.errors import ExportError
from espalier.model.graph.adapters import adaptable, adapted, module_path
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Adapter
from espalier.model.store.weights import WeightStore, write
from espalier.passes.lowrank.peft_read import CONFIG, PREFIX, VALUES


def write_peft(graph: Graph, store: WeightStore, folder: Path, base: str | None, saved: dict[str, str]) -> list[str]:
    """Write the folder; returns notes. `saved`: tensors of whole modules (name in the file → weight).

    Raises ExportError where calls of one module have different adapters.
    """
    held = _by_module(graph)
    folder.mkdir(exist_ok=True)
    tensors = {f"{PREFIX}{name}": store.get(graph.weights[w].key or "") for name, w in saved.items()}
    for path, (node, adapter) in held.items():
        for part, weight in (("A", adapter.a), ("B", adapter.b)):
            name = f"lora_embedding_{part}" if node.op == "embedding" else f"lora_{part}.weight"
            tensors[f"{PREFIX}{path}.{name}"] = store.get(graph.weights[weight].key or "")
    with (folder / VALUES).open("wb") as handle:
        write(handle, tensors, {"format": "pt"})
    modules = sorted({name.rpartition(".")[0] for name in saved})
    text = json.dumps(_config(graph, held, base, modules), indent=2, ensure_ascii=False)
    (folder / CONFIG).write_text(text + "\n", encoding="utf-8")
    dropouts = {a.dropout for _, a in held.values()}
    return ["PEFT keeps one dropout for all layers; here they differ."] if len(dropouts) > 1 else []


def _by_module(graph: Graph) -> dict[str, tuple[Node, Adapter]]:
    """Module path → its node and adapter; raises ExportError where calls of it differ."""
    found: dict[str, tuple[Node, Adapter]] = {}
    ids = {n.id for n, _ in adapted(graph)}
    paths = {module_path(n, graph) for n, _ in adapted(graph)}
    for node in (n for n in graph if adaptable(n, graph) and module_path(n, graph) in paths):
        path = module_path(node, graph)
        held = next(iter(node.adapters.values()), None)
        first = found.setdefault(path, (node, held)) if held else found.get(path)
        if node.id not in ids or first is None or first[1] != held:
            raise ExportError(f"{path} is called more than once, with different adapters.",
                              "PEFT gives a module one: insert LoRA for all its calls.", node.id)  # fmt: skip
    return found


def _config(graph: Graph, held: dict[str, tuple[Node, Adapter]], base: str | None, saved: list[str]) -> dict[str, Any]:
    """PEFT's LoraConfig, where it differs from its defaults."""
    adapters = {path: a for path, (_, a) in held.items()}
    rooted = all(a.rooted for a in adapters.values())
    alphas = {k: a.alpha if a.rooted == rooted else a.scaling * a.rank for k, a in adapters.items()}
    ranks = {k: a.rank for k, a in adapters.items()}
    rank, alpha = _usual(ranks.values()), _usual(alphas.values())
    return {
        "peft_type": "LORA", "task_type": None, "base_model_name_or_path": base, "inference_mode": True,
        "r": rank, "lora_alpha": alpha, "use_rslora": rooted,
        "lora_dropout": _usual(a.dropout for a in adapters.values()),
        "rank_pattern": {f"^{k}": r for k, r in ranks.items() if r != rank},
        "alpha_pattern": {f"^{k}": a for k, a in alphas.items() if a != alpha},
        "target_modules": _targets(graph, list(adapters)), "modules_to_save": saved or None, "bias": "none",
        "fan_in_fan_out": any(n.attrs.get("class") == "Conv1D" for n, _ in held.values()),
        "init_lora_weights": True,
    }  # fmt: skip


def _usual(values: Iterable[float]) -> Any:
    """The most common; a whole number as such, as PEFT writes them."""
    found = Counter(values).most_common(1)[0][0]
    return int(found) if found == int(found) else found


def _targets(graph: Graph, paths: list[str]) -> list[str] | str:
    """The paths; as one pattern where the end of another module's path is one of them."""
    others = {n.target for n in graph if n.call == "call_module"} - set(paths)
    if any(other.endswith(f".{path}") for other in others for path in paths):
        return "|".join(re.escape(path) for path in paths)
    return sorted(paths)
