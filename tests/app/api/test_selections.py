"""`m.selections`: a mapping that steps, files and exported scripts go by."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

import espalier as es
from espalier.app.cli import main


def net() -> es.Model:
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.GELU(), torch.nn.Linear(6, 6), torch.nn.Linear(6, 3))
    return es.trace(layers, torch.randn(2, 8), name="Net")


def formats(model: es.Model) -> dict[str, str]:
    return {n.id: n.precision["weight"].format.label for n in model if "weight" in n.precision}


def test_a_step_names_what_is_saved() -> None:
    m = net()
    m.selections["ends"] = ["0", m["3"]]
    assert dict(m.selections) == {"ends": ("0", "3")} and len(m.selections) == 1 and "ends" in m.selections
    m.quantize("saved:ends", weight="int8")
    assert set(formats(m)) == {"0", "3"}
    assert [n.id for n in m.nodes("saved:ends")] == ["0", "3"]
    m.selections["ends"] = "2"
    assert set(formats(m)) == {"0", "3"}, "a step keeps the nodes of then"
    assert [n.id for n in m.nodes("saved:ends")] == ["2"]
    m.undo()
    assert m.selections["ends"] == ("0", "3")
    del m.selections["ends"]
    assert not m.selections and set(formats(m)) == {"0", "3"}


def test_errors_name_the_nearest() -> None:
    m = net()
    m.selections["attention inputs"] = ["0"]
    with pytest.raises(es.EspalierError, match="no saved selection 'attention input'") as caught:
        m.quantize("saved:attention input", weight="int8")
    assert "attention inputs" in caught.value.hint
    with pytest.raises(KeyError, match="no saved selection 'x'"):
        m.selections["x"]
    with pytest.raises(KeyError):
        del m.selections["x"]
    assert m.selections.get("x") is None
    for name, nodes in (("", ["0"]), ("a\nb", ["0"]), ("a", []), ("a", ["nope"])):
        with pytest.raises(es.EspalierError):
            m.selections[name] = nodes
    assert dict(m.selections) == {"attention inputs": ("0",)}


def test_another_model_takes_the_recipe_with_its_members(tmp_path: Path) -> None:
    m = net()
    m.selections["ends"] = ["0", "3"]
    m.quantize("saved:ends", weight="int8").prune("saved:ends", sparsity=0.5)
    m.export("recipe", tmp_path / "r.toml")
    table: dict[str, Any] = tomllib.loads((tmp_path / "r.toml").read_text())
    select = {"by": "saved", "values": ["ends"], "nodes": ["0", "3"]}
    assert table["steps"][1]["options"]["select"] == select
    other = net().apply(tmp_path / "r.toml")
    assert formats(other) == formats(m) and not other.selections
    bare = {"prune": {"select": {"by": "saved", "values": ["ends"]}, "sparsity": 0.5}}
    with pytest.raises(es.EspalierError, match="no saved selection 'ends'"):
        net().apply(bare)
    other = net()
    other.selections["ends"] = ["2"]
    other.apply(bare)
    assert [n.id for n in other if n.sparsity] == ["2"]


def test_searches_and_sweeps_select_by_a_name() -> None:
    m = net()
    m.selections["ends"] = ["0", "3"]
    curve = m.sweep(over="prune.sparsity=0.1,0.5",
                    recipe={"prune": {"select": {"by": "saved", "values": ["ends"]}, "sparsity": 0.5}})  # fmt: skip
    assert len(curve.rows) == 3
    spec = {"space": [{"select": {"by": "saved", "values": ["ends"]}, "values": ["int8", "int4"]}],
            "goals": ["weight_bits"], "sampler": "random"}  # fmt: skip
    study = m.search(spec, trials=4)
    assert {k for r in study.rows for k in r["params"]} == {"0.weight", "3.weight"}
    with pytest.raises(es.EspalierError, match="no saved selection 'middle'"):
        m.search({**spec, "space": [{"select": {"by": "saved", "values": ["middle"]}, "values": ["int8"]}]})


def test_the_command_line_resolves_names_in_the_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    m = net()
    m.selections['we said "so"'] = ["0", "2"]
    m.save(tmp_path / "m.espalier")
    recipe = tmp_path / "r.toml"
    recipe.write_text('[[steps]]\npass = "prune"\noptions = {sparsity = 0.5, select = {by = "saved", '
                      "values = ['we said \"so\"']}}\n")  # fmt: skip
    out = tmp_path / "out.espalier"
    assert main(["run", str(tmp_path / "m.espalier"), str(recipe), "-o", str(out), "--json"]) == 0
    assert [r["node"] for r in json.loads(capsys.readouterr().out)["steps"][0]["report"]["rows"]] == ["0", "2"]
    again = es.open(out)
    assert dict(again.selections) == {'we said "so"': ("0", "2")}
    assert main(["diff", f"{out}@opened", str(out), "--json"]) == 0
    changed = json.loads(capsys.readouterr().out)
    assert {n for row in changed["rows"] for n in [row["node"]]} >= {"0", "2"}
    net().save(tmp_path / "bare.espalier")
    assert main(["run", str(tmp_path / "bare.espalier"), str(recipe)]) != 0
    assert "There is no saved selection" in capsys.readouterr().err
