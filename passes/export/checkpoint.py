"""A folder with effective weights: a Hugging Face one where the architecture is still the source's, or else
weights beside our graph, with a script that loads them.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from espalier.model.document.graph_json import graph_to_json
from espalier.model.document.project import Project
from espalier.model.errors import EspalierError, ExportError
from espalier.model.files import filling, make_folder
from espalier.model.graph.caches import OP
from espalier.model.graph.graph import Graph, Node, Ref
from espalier.model.graph.ports import weight_at
from espalier.model.opening import needs_source
from espalier.model.sources.pruned_class import is_pruned
from espalier.model.sources.source import OBJECT, load_source
from espalier.model.store.weights import Tensor, WeightStore, write
from espalier.model.torch.tensors import to_numpy
from espalier.passes.export.effective_weights import effective_weights, shared_differently
from espalier.passes.export.loading import MASK
from espalier.passes.export.mixed_folders import MODEL, check_for_model, check_for_own_form, check_layout
from espalier.passes.export.pruned_sizes import is_cut, pruned, stale_code, write_code
from espalier.passes.export.smaller_config import Smaller, fill, shrunk, smaller
from espalier.passes.export.targets import stored_name
from espalier.passes.export.tied_weights import untied
from espalier.passes.lowrank.peft_write import write_peft

GRAPH = "graph.json"
ADAPTER = "adapter"  # folder of the adapters beside a model's weights

TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "merges.txt", "tokenizer.model",
    "spiece.model", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja", "preprocessor_config.json",
    "processor_config.json",
)  # fmt: skip


def write_checkpoint(project: Project, store: WeightStore, folder: Path) -> tuple[list[Path], list[str]]:
    """Write the folder; returns its files and what it could not take along. Raises ExportError."""
    check_for_model(folder)
    make_folder(folder.parent, ExportError)
    weights, foreign = dict(effective_weights(project.graph, store)), needs_source(project.graph)

    def stale(new: Path, old: Path) -> list[str]:
        check_layout(new, old)
        own = stale_form(old, readme=model is not None) if model is not None or foreign else []
        return own if is_pruned(model) else [*own, *stale_code(old)]

    with filling(folder, ExportError, (GRAPH, MODEL), stale, whole=True) as part:
        model, why, told = model_of(project, weights, store, part, with_code=True)
        if model is not None:
            _save(model, part)
            copy_tokenizer(project, part)
            if _has_adapters(project):
                write_peft(project.graph, store, part / ADAPTER, str(folder), {})
        else:
            check_for_own_form(folder)
            plain = {k: to_numpy(v) for k, v in weights.items()}
            (_write_plain if foreign else _write_own)(project, plain, store, part, folder.name)
    files = [*folder.iterdir(), *((folder / ADAPTER).iterdir() if model is not None and _has_adapters(project) else ())]
    return sorted(f for f in files if f.is_file()), [
        *([f"This is Espalier's own form, as transformers cannot say the model: {why}."] if why else ()),
        *told,
        *_notes(project.graph, model is None and not foreign, apart=model is not None and not foreign),
        *_adapter_notes(project, folder),
    ]


def stale_form(folder: Path, *, readme: bool = True) -> list[str]:
    """What an earlier export in our own form left, which would load another model than that beside it."""
    script = folder / "load.py"
    own = script.is_file() and script.read_text(encoding="utf-8", errors="replace") == SCRIPT
    return ["load.py", GRAPH, *(["README.md"] if readme else [])] if own else []


def _has_adapters(project: Project) -> bool:
    return any(n.adapters for n in project.graph)


def _adapter_notes(project: Project, folder: Path) -> list[str]:
    if not _has_adapters(project):
        return []
    if not (folder / ADAPTER).is_dir():
        return ["The adapters are part of the graph; fuse them first for plain weights."]
    return [f"The model is here without its adapters; these lie in {ADAPTER}: PeftModel.from_pretrained(model, "
            f"'{folder.name}/{ADAPTER}'). Fuse them first for one model."]  # fmt: skip


def _notes(graph: Graph, own: bool, *, apart: bool) -> list[str]:
    """`own`: its graph says all. `apart`: weights that are shared with different formats have been untied."""
    if own:
        return []
    notes = [
        f"{name} is shared by nodes with different formats or masks; it is exported as it was."
        for name in ([] if apart else shared_differently(graph))
    ]
    if any(p in ("data_in", "data_out") for n in graph for p in n.precision):
        notes.append("Formats of activations are not part of a checkpoint.")
    if lost := [f"{n.id} {p}" for n in graph for p in n.precision if _is_computed(n, p, graph)]:
        others = f" and {len(lost) - 1} more" if lost[1:] else ""
        notes.append(f"The format of {lost[0]}{others} is not part of the checkpoint: that weight is computed.")
    if any(s.flows for n in graph for s in n.sparsity.values()):
        notes.append("Pruning of activations is not part of a checkpoint.")
    return notes


def _is_computed(node: Node, port: str, graph: Graph) -> bool:
    """Whether the tensor at a port of a weight or bias is no stored one."""
    return not port.startswith("data") and port in node.ports and stored_name(node, port, graph) is None


def same_architecture(base: Graph, graph: Graph) -> bool:
    """Whether both compute the same but for choices and values; dropout may be gone, and caches be named."""
    cut = any(w.shape != graph.weights[k].shape for k, w in base.weights.items() if k in graph.weights)
    return not cut and _bones(base) == _bones(graph)


def _bones(graph: Graph) -> list[Any]:
    through: dict[str, Ref] = {}
    for node in graph:
        if node.op in ("dropout", OP) and node.inputs:
            through[node.id] = through.get(node.inputs[0].node, node.inputs[0])
    kept: list[Any] = []
    for node in graph:
        if node.id not in through:
            inputs = [through.get(r.node, r) for r in node.inputs]
            constants = [a for a in (*node.args, *node.kwargs.values()) if not isinstance(a, Ref | tuple)]
            attrs = node.attrs if node.call == "call_module" else None  # of a function, what it drops in training
            kept.append((node.id, node.op, node.target, inputs, constants, attrs, node.weights))
    return sorted(kept, key=lambda k: k[0])


def model_of(
    project: Project, weights: dict[str, Any], store: WeightStore, folder: Path, *, with_code: bool = False
) -> Smaller:
    """The source's module with the weights in it, in smaller sizes where its configuration can say them.

    `with_code`: or a class that cuts it can. What it ties is untied where the formats or masks differ; `folder` is
    where that is tried.
    """
    if same_architecture(project.base, project.graph):
        model = _source_model(project)
        if model is not None:
            fill(model, weights)
        result = Smaller(model)
    else:
        source = _known_model(project) if shrunk(project.base, project.graph) else None
        sizes = (project.base, project.graph, weights, store)
        result = smaller(source, *sizes) if source is not None else Smaller()
        if result.why and with_code and is_cut(source, project.graph):
            result = pruned(source, *sizes)
    if result.model is None or needs_source(project.graph):
        return result
    apart = untied(result.model, project.graph, store, folder)
    return apart._replace(notes=(*result.notes, *apart.notes))


def _known_model(project: Project) -> Any:
    """As `_source_model`, where a source that is gone is no fault: the folder can do without it."""
    try:
        return _source_model(project)
    except ExportError:
        return None


def _source_model(project: Project) -> Any:
    """The source's module when transformers can save it; None for any other."""
    if project.source.spec.startswith(OBJECT):  # there is nothing to open: the folder does without it
        return None
    if project.base.runs == "graph" and project.source.spec.endswith(".pt2"):
        return None
    try:
        loaded = load_source(project.source.spec, (), project.source.seed)
    except EspalierError as error:
        raise ExportError(f"The source is needed for its configuration: {error.message}", error.hint) from error
    loaded.restore_cache()  # what is saved is configured as the source was
    return loaded.model if hasattr(loaded.model, "save_pretrained") else None


def _save(model: Any, folder: Path) -> None:
    from transformers.utils import logging

    logging.disable_progress_bar()
    model.save_pretrained(folder)
    if is_pruned(model):
        write_code(model, folder)


def copy_tokenizer(project: Project, folder: Path) -> None:
    """Copy the files of the tokenizer that the source has, if any."""
    home = Path(project.source.tokenizer) if project.source.tokenizer else None
    if home and home.is_dir():
        for name in TOKENIZER_FILES:
            if (home / name).is_file():
                shutil.copyfile(home / name, folder / name)
    elif project.source.tokenizer:
        from transformers import AutoTokenizer

        AutoTokenizer.from_pretrained(project.source.tokenizer, trust_remote_code=False).save_pretrained(folder)


# -- what transformers does not know

README = """\
# {name}

`model.safetensors` holds the weights with masks and formats applied, `graph.json` the graph of operations with the
formats of activations. `python load.py` runs it on made inputs (Espalier must be installed); in your own program:

    from pathlib import Path
    from espalier.passes.export.loading import load_folder

    module = load_folder(Path("{folder}"))  # a torch.fx GraphModule
    module({inputs})
"""

PLAIN = """\
# {name}

`model.safetensors` holds the weights with masks and formats applied, by their names in the model's `state_dict`. The
model runs only with its own code ({code}), so build it there and load them:

    from safetensors.torch import load_file

    model = …  # as {code} makes it
    missing, _ = model.load_state_dict(load_file("model.safetensors"), strict=False)
    print(missing)  # no more than the second names of shared weights
"""

SCRIPT = '''\
"""Loads the model of this folder, runs it on made inputs, and prints the shapes of its results. Needs Espalier."""

import json
import sys
from pathlib import Path

try:
    import torch

    from espalier.model.errors import EspalierError
    from espalier.passes.export.loading import example_of, load_folder
except ImportError as error:
    sys.exit(f"Espalier cannot be imported ({error}).\\nInstall it, and run this with its Python.")

HERE = Path(__file__).resolve().parent


def main() -> None:
    module, inputs = load_folder(HERE), example_of(HERE)
    with torch.no_grad():
        results = torch.utils._pytree.tree_leaves(module(**inputs))
    shapes = {k: list(v.shape) for k, v in inputs.items()}
    print(json.dumps({"inputs": shapes, "results": [list(r.shape) for r in results]}))


if __name__ == "__main__":
    try:
        main()
    except EspalierError as error:
        sys.exit(f"{error.message}\\n{error.hint}")
'''


def _write_own(project: Project, weights: dict[str, Tensor], store: WeightStore, folder: Path, name: str) -> None:
    graph = bare(project.graph, weights)
    masks = {s.mask for n in graph for s in n.sparsity.values() if s.mask is not None}
    with (folder / "model.safetensors").open("wb") as handle:
        write(handle, {**weights, **{f"{MASK}{key}": store.get(key) for key in sorted(masks)}})
    text = json.dumps(graph_to_json(graph), separators=(",", ":"), allow_nan=False)
    (folder / GRAPH).write_text(text, encoding="utf-8")
    inputs = ", ".join(f"{n.target}=…" for n in graph.placeholders)
    note = README.format(name=project.source.name, folder=name, inputs=inputs)
    (folder / "README.md").write_text(note, encoding="utf-8")
    (folder / "load.py").write_text(SCRIPT, encoding="utf-8")


def _write_plain(project: Project, weights: dict[str, Tensor], _: WeightStore, folder: Path, name: str) -> None:
    """Weights alone: no file can hold the code that the model runs."""
    with (folder / "model.safetensors").open("wb") as handle:
        write(handle, weights)
    code = Path(project.source.spec.removeprefix(OBJECT)).name or project.source.name
    (folder / "README.md").write_text(PLAIN.format(name=project.source.name, code=code), encoding="utf-8")


def bare(graph: Graph, weights: dict[str, Tensor]) -> Graph:
    """The graph without the choices that the values now hold."""
    kept = set(shared_differently(graph))
    nodes = [
        replace(n, precision={p: c for p, c in n.precision.items() if weight_at(n, p, graph) in (None, *kept)},
                sparsity={p: s for p, s in n.sparsity.items() if s.flows or weight_at(n, p, graph) in kept})
        for n in graph
    ]  # fmt: skip
    keyed = {k: replace(w, key=weights[k].key()) for k, w in graph.weights.items()}
    return graph.replace(*nodes).with_weights(keyed)
