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
    """Write the folder and return notes for the user. `saved`: name in the file → weight of a module trained in full.

    Raises ExportError if calls of one module have different adapters.
    """
    adapters = _by_module(graph)
    folder.mkdir(exist_ok=True)
    tensors = {f"{PREFIX}{name}": store.get(graph.weights[w].key or "") for name, w in saved.items()}
    for path, (node, adapter) in adapters.items():
        for part, weight in (("A", adapter.a), ("B", adapter.b)):
            name = f"lora_embedding_{part}" if node.op == "embedding" else f"lora_{part}.weight"
            tensors[f"{PREFIX}{path}.{name}"] = store.get(graph.weights[weight].key or "")
    with (folder / VALUES).open("wb") as handle:
        write(handle, tensors, {"format": "pt"})
    modules = sorted({name.rpartition(".")[0] for name in saved})
    text = json.dumps(_config(graph, adapters, base, modules), indent=2, ensure_ascii=False)
    (folder / CONFIG).write_text(text + "\n", encoding="utf-8")
    dropouts = {a.dropout for _, a in adapters.values()}
    return ["The layers differ in dropout; PEFT stores only the most frequent value."] if len(dropouts) > 1 else []


def _by_module(graph: Graph) -> dict[str, tuple[Node, Adapter]]:
    """Module path → (node, adapter). Raises ExportError if calls of a module have different adapters."""
    modules: dict[str, tuple[Node, Adapter]] = {}
    ids = {n.id for n, _ in adapted(graph)}
    paths = {module_path(n, graph) for n, _ in adapted(graph)}
    for node in (n for n in graph if adaptable(n, graph) and module_path(n, graph) in paths):
        path = module_path(node, graph)
        adapter = next(iter(node.adapters.values()), None)
        first = modules.setdefault(path, (node, adapter)) if adapter else modules.get(path)
        if node.id not in ids or first is None or first[1] != adapter:
            raise ExportError(f"{path} is called more than once, with different adapters.",
                              "Insert LoRA for all its calls: PEFT has one adapter per module.", node.id)  # fmt: skip
    return modules


def _config(
    graph: Graph, modules: dict[str, tuple[Node, Adapter]], base: str | None, saved: list[str]
) -> dict[str, Any]:
    """The entries of PEFT's LoraConfig that differ from its defaults."""
    adapters = {path: adapter for path, (_, adapter) in modules.items()}
    rooted = all(a.rooted for a in adapters.values())
    alphas = {k: a.alpha if a.rooted == rooted else a.scaling * a.rank for k, a in adapters.items()}
    ranks = {k: a.rank for k, a in adapters.items()}
    rank, alpha = _most_common(ranks.values()), _most_common(alphas.values())
    return {
        "peft_type": "LORA", "task_type": None, "base_model_name_or_path": base, "inference_mode": True,
        "r": rank, "lora_alpha": alpha, "use_rslora": rooted,
        "lora_dropout": _most_common(a.dropout for a in adapters.values()),
        "rank_pattern": {f"^{k}": r for k, r in ranks.items() if r != rank},
        "alpha_pattern": {f"^{k}": a for k, a in alphas.items() if a != alpha},
        "target_modules": _targets(graph, list(adapters)), "modules_to_save": saved or None, "bias": "none",
        "fan_in_fan_out": any(n.attrs.get("class") == "Conv1D" for n, _ in modules.values()),
        "init_lora_weights": True,
    }  # fmt: skip


def _most_common(values: Iterable[float]) -> Any:
    """The most frequent value, as an int if it is integral, as PEFT writes it."""
    value = Counter(values).most_common(1)[0][0]
    return int(value) if value == int(value) else value


def _targets(graph: Graph, paths: list[str]) -> list[str] | str:
    """The paths, or a regular expression if one of them is also the end of another module's path."""
    others = {n.target for n in graph if n.call == "call_module"} - set(paths)
    if any(other.endswith(f".{path}") for other in others for path in paths):
        return "|".join(re.escape(path) for path in paths)
    return sorted(paths)
