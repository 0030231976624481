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


@pytest.mark.slow
@pytest.mark.sampled(0.34)
@pytest.mark.parametrize(
    ("edit", "text"),
    [
        ({"rename": {"node": "act", "name": "x" * (LONGEST_TITLE + 1)}}, "81 characters"),
        ({"rename": {"node": "act", "name": "two\nlines"}}, "control character"),
        ({"note": {"node": "act", "text": "x" * (LONGEST_NOTE + 1)}}, "4001 characters"),
        ({"note": {"node": "act", "text": "bell \x07"}}, "control character"),
        ({"rename": {"node": "act", "name": "fc\u202egpj.exe"}}, "control character"),
        ({"rename": {"node": "act", "name": "\u200b\u2060"}}, "title has no character that can be seen"),
        ({"rename": {"node": "act", "name": "\u3164\u034f"}}, "title has no character that can be seen"),
        ({"note": {"node": "act", "text": "\ufeff"}}, "note has no character that can be seen"),
        ({"tag": {"node": "act", "colour": "mauve"}}, "mauve"),
        ({"rename": {"node": "nobody", "name": "x"}}, "nobody"),
        ({"mute": {"node": "up"}}, "24"),
        ({"mute": {"node": "x"}}, "Suitable types"),
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
    for title in (" ", "\u00ad", "\u2800\u3164 \u200d"):
        data["nodes"]["act"]["annotation"]["title"] = title
        with pytest.raises(ProjectError, match="no character that can be seen"):
            graph_from_json(data)
    data["nodes"]["act"]["annotation"]["title"] = "层 ① 👩\u200d🔬"
    assert graph_from_json(data)["act"].annotation.title == "层 ① 👩\u200d🔬"


def test_files_cannot_call_a_live_node_muted() -> None:
    """*Unmute* could not bring back what stands there already."""
    model = made()
    data = graph_to_json(model.project.graph)
    data["nodes"]["act"]["annotation"] = {"muted": True, "title": "kept"}
    read = graph_from_json(data)
    assert not read["act"].annotation.muted and read["act"].annotation.title == "kept"
    model.edit_graph([{"mute": {"node": "act"}}])  # type: ignore[attr-defined]
    assert graph_from_json(graph_to_json(model.project.graph))["act"].annotation.muted


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


class Wide(nn.Module):
    """A module with several results, and one with a very long name."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(7, 7, batch_first=True)
        self.add_module("n" * 90, nn.LayerNorm(7))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found, (state, _) = self.lstm(x)
        return getattr(self, "n" * 90)(found), state


def test_a_mute_that_cannot_be_is_refused_and_long_names_are_cut() -> None:
    model = es.trace(Wide().eval(), torch.randn(2, 5, 7))
    lstm = next(n.id for n in model if "data_out_1" in n.ports)
    with pytest.raises(EspalierError, match="several results"):
        model.edit_graph([{"mute": {"node": lstm}}])  # type: ignore[attr-defined]
    norm = next(n.id for n in model if n.op == "layer_norm")
    model.edit_graph([{"mute": {"node": norm}}])  # type: ignore[attr-defined]
    assert model[norm].annotation.title == "n" * LONGEST_TITLE


def test_a_muted_module_keeps_its_path_and_is_muted_once() -> None:
    model, _ = edited({"mute": {"node": "norm"}})
    assert model["norm"].target == "norm"
    before = model.project.graph
    model.edit_graph([{"mute": {"node": "norm"}}])  # type: ignore[attr-defined]
    assert model.project.graph == before
    with pytest.raises(EspalierError, match="Suitable types"):
        model.prune("norm", sparsity=0.5)  # type: ignore[attr-defined]


def test_whole_numbers_can_be_muted_too() -> None:
    class Ids(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(20, 4)

        def forward(self, ids: Tensor) -> Tensor:
            return self.table(ids + 1)

    net = Ids().eval()
    model = es.trace(net, torch.randint(0, 9, (2, 5)))
    add = next(n.id for n in model if n.op == "add")
    model.edit_graph([{"mute": {"node": add}}])  # type: ignore[attr-defined]
    ids = torch.randint(0, 9, (3, 5))
    with torch.no_grad():
        assert torch.equal(model.to_torch()(ids), net.table(ids))


def test_a_replaced_node_keeps_what_is_written_on_it() -> None:
    model = made()
    model.edit_graph([*WRITTEN, {"replace": {"node": "act", "op": "relu"}}])  # type: ignore[attr-defined]
    assert model["act"].annotation == Annotation("Gate of the first block", WRITTEN[1]["note"]["text"], "red")


def test_a_model_is_a_collection_of_nodes() -> None:
    model = made()
    assert "act" in model and "nobody" not in model and [n.id for n in model] == list(model.project.graph.nodes)
    assert model.nodes("where:bits > 900") == ()


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        ({"node": "mix", "op": "low_rank", "rank": 2, "attrs": {"bias": False}}, "low_rank takes no attrs"),
        ({"node": "mix", "op": "low_rank", "rank": 2, "init": "identity"}, "low_rank takes no init"),
        ({"node": "act", "op": "gelu", "rank": 3}, "rank is 3, and gelu has none"),
    ],
)
def test_options_that_would_change_nothing_are_refused(edit: dict[str, Any], text: str) -> None:
    with pytest.raises(EspalierError, match=text):
        made().edit_graph([{"replace": edit}])  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize("op", [{"op": "low_rank", "rank": 24}])
def test_two_modules_take_no_mask_and_no_adapter(op: dict[str, Any]) -> None:
    for spoil in (lambda m: m.prune("mix", sparsity=0.5), lambda m: m.lora("mix", rank=2)):
        model = made()
        spoil(model)
        with pytest.raises(EspalierError, match="which two modules cannot have"):
            model.edit_graph([{"replace": {"node": "mix", **op}}])  # type: ignore[attr-defined]
