"""What a person writes on nodes changes nothing that is computed; a muted node is an identity of torch's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import espalier as es
from espalier.model.document.graph_json import fingerprint, graph_from_json, graph_to_json
from espalier.model.errors import EspalierError, ProjectError
from espalier.model.graph.annotation import LONGEST_NOTE, LONGEST_TITLE, Annotation
from espalier.passes.score import static_score
from tests.passes.edits.test_edit_graph import Net, close, edited, made

WRITTEN: list[dict[str, Any]] = [
    {"rename": {"node": "act", "name": "Gate of the first block"}},
    {"note": {"node": "act", "text": "GELU costs 3 % of the time.\nTry ReLU."}},
    {"tag": {"node": "act", "colour": "red"}},
    {"tag": {"select": {"by": "type", "values": ["linear"]}, "colour": "blue"}},
]


def test_texts_are_kept_and_compute_nothing(tmp_path: Path) -> None:
    plain, model = made(), made()
    model.edit_graph(WRITTEN)  # type: ignore[attr-defined]
    text = "GELU costs 3 % of the time.\nTry ReLU."
    assert model["act"].annotation == Annotation("Gate of the first block", text, "red")
    assert [n.id for n in model.nodes("where:tag == 'blue'")] == ["up", "mix", "head"]
    assert [n.id for n in model.nodes('where:title == "Gate of the first block"')] == ["act"]
    assert fingerprint(model.project.graph) == fingerprint(plain.project.graph)
    assert static_score(model.project.graph) == static_score(plain.project.graph)
    again = es.open(model.save(tmp_path / "a.espalier"))
    assert again["act"].annotation == model["act"].annotation
    sizes = [m.export("packed", tmp_path / f"{i}.safetensors").bytes for i, m in enumerate((plain, model))]
    assert sizes[0] == sizes[1]
    close(model, _same_weights(model))
    model.undo()
    assert model["act"].annotation == Annotation()


def _same_weights(model: es.Model) -> nn.Module:
    torch.manual_seed(1)
    net = Net().eval()
    found = dict(model.to_torch().named_parameters())
    assert all(torch.equal(p, found[name]) for name, p in net.named_parameters())
    return net


def test_empty_texts_take_them_away() -> None:
    model = made()
    model.edit_graph([*WRITTEN, {"rename": {"node": "act"}}, {"note": {"node": "act"}}, {"tag": {"node": "act"}}])  # type: ignore[attr-defined]
    assert model["act"].annotation == Annotation()


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        ({"rename": {"node": "act", "name": "x" * (LONGEST_TITLE + 1)}}, "81 characters"),
        ({"rename": {"node": "act", "name": "two\nlines"}}, "control character"),
        ({"note": {"node": "act", "text": "x" * (LONGEST_NOTE + 1)}}, "4001 characters"),
        ({"note": {"node": "act", "text": "bell \x07"}}, "control character"),
        ({"rename": {"node": "act", "name": "fc\u202egpj.exe"}}, "control character"),
        ({"tag": {"node": "act", "colour": "mauve"}}, "mauve"),
        ({"rename": {"node": "nobody", "name": "x"}}, "nobody"),
        ({"mute": {"node": "up"}}, "24"),
        ({"mute": {"node": "x"}}, "Types that can"),
    ],
)
def test_what_cannot_be_written_is_refused(edit: dict[str, Any], text: str) -> None:
    with pytest.raises(EspalierError, match=text):
        made().edit_graph([edit])  # type: ignore[attr-defined]


def test_files_cannot_bring_longer_texts() -> None:
    model = made()
    model.edit_graph(WRITTEN)  # type: ignore[attr-defined]
    data = graph_to_json(model.project.graph)
    assert graph_from_json(data) == model.project.graph
    data["nodes"]["act"]["annotation"]["title"] = "x" * 10_000
    with pytest.raises(ProjectError, match="10000 characters"):
        graph_from_json(data)


@pytest.mark.parametrize("node", ["act", "norm", "mix", "drop"])
def test_a_muted_node_is_an_identity(node: str) -> None:
    model, net = edited({"mute": {"node": node}})
    setattr(net, node, nn.Identity())
    close(model, net)
    assert model[node].annotation.muted and model[node].annotation.title == node
    model.undo()
    assert not model[node].annotation.muted and model[node].op != "identity"


class Sum(nn.Module):
    """A residual sum."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(7, 7)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x) + x


def test_a_muted_sum_gives_its_first_summand() -> None:
    model, net = edited({"mute": {"node": "add"}}, module=Sum())
    with torch.no_grad():
        x = torch.randn(3, 7)
        torch.testing.assert_close(model.to_torch()(x.expand(2, 3, 7)), net.fc(x.expand(2, 3, 7)))


def test_recorded_models_can_be_annotated_and_not_edited() -> None:
    from dataclasses import replace

    from espalier.passes.base import Context
    from espalier.passes.edits.annotate import Note
    from espalier.passes.edits.mute import Mute
    from espalier.passes.transform.edit_graph import EditGraphOptions, edit_graph

    model = made()
    graph, context = replace(model.project.graph, runs="module"), Context(model._place.opened.store)
    after, _ = edit_graph(graph, EditGraphOptions((Note("act", text="slow"),)), context)
    assert after["act"].annotation.note == "slow"
    with pytest.raises(EspalierError, match="recorded"):
        edit_graph(graph, EditGraphOptions((Mute("act"),)), context)


def test_nodes_are_listed_by_any_selection() -> None:
    model = made()
    assert [n.id for n in model.nodes("linear")] == ["up", "mix", "head"]
    assert model.nodes()[0].op == "placeholder"
    assert model["act"].op == "gelu"
    with pytest.raises(EspalierError, match="act"):
        model["acct"]
