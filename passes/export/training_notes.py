"""What an export says of trainings that changed nothing: nobody should ship an adapter of zeros unaware."""

from __future__ import annotations

from espalier.model.document.project import Project
from espalier.model.graph.adapters import adapted
from espalier.model.graph.graph import Graph
from espalier.model.store.weights import WeightStore

TRAINING = "finetune"


def unhelped(project: Project, store: WeightStore) -> list[str]:
    """A sentence where the project trains and the result holds nothing of it."""
    graph = project.graph
    held = [adapter for _, adapter in adapted(graph)]
    trains = any(step.pass_name == TRAINING for step in project.recipe.active)
    if held and all(_zero(adapter.b, graph, store) for adapter in held):
        after = ", also after the training" if trains else ""
        return [f"The adapter changes nothing: its B matrices are all 0{after}."]
    if trains and not held and _untouched(project.base, graph):
        return ["The recipe trains, but every weight is as it was opened: nothing of the training is in the export."]
    return []


def _zero(name: str, graph: Graph, store: WeightStore) -> bool:
    key = graph.weights[name].key
    return key is not None and not store.get(key).array.any()


def _untouched(base: Graph, graph: Graph) -> bool:
    return all(base.weights[name].key == w.key for name, w in graph.weights.items() if name in base.weights)
