"""The reports: figures that can be counted by hand, and no torch where a report says it is instant."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from espalier.model.errors import PassError
from espalier.model.formats.integer import Integer
from espalier.model.formats.straight_through import straight_through
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision, Weight
from espalier.model.registry import PASSES, walk
from espalier.model.store.weights import WeightStore
from espalier.model.trace.trace import trace
from espalier.passes import analysis
from espalier.passes.base import Context, Report, Row
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.score import bitops
from espalier.passes.transform.prune import prune
from tests.patience import PATIENCE

walk(analysis)
REPORTS = ("graph", "types", "shapes", "parameters", "cost", "statistics", "quantization")
INSTANT = ("graph", "types", "shapes", "parameters", "cost")


class Tied(nn.Module):
    """An embedding whose weight also is the output layer's, a frozen Linear, a residual and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.hidden = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 10, bias=False)
        self.head.weight = self.embed.weight
        self.hidden.requires_grad_(False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        return self.head(self.norm(torch.relu(self.hidden(x)) + x))


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(WeightStore(tmp_path))


@pytest.fixture
def graph(context: Context) -> Graph:
    torch.manual_seed(0)
    return trace(Tied(), {"ids": torch.randint(0, 10, (2, 3))}, context.store).graph


def run(name: str, graph: Graph, context: Context) -> Report:
    spec = PASSES.get(name)
    after, report = spec.run(graph, spec.options(), context)
    assert after is graph
    return report


def rows_by(report: Report, key: str) -> dict[str, Row]:
    return {str(row[key]): row for row in report.rows}


@pytest.mark.parametrize("name", REPORTS)
def test_rows_share_their_keys(name: str, graph: Graph, context: Context) -> None:
    quantised = replace(graph["hidden"], precision={"weight": Precision(Integer(8, 4))})
    rows = run(name, graph.replace(quantised), context).rows
    assert rows and len({tuple(row) for row in rows}) == 1


def test_graph_counts_nodes_and_the_longest_path(graph: Graph, context: Context) -> None:
    report = run("graph", graph, context)
    assert report.summary["nodes"] == len(graph) == sum(r["nodes"] for r in report.rows)
    assert report.summary["ops"]["linear"] == 2
    # ids → embed → hidden → relu → add → norm → head → output
    assert report.summary["depth"] == 7
    assert report.summary["edges"] == 8


def test_types_are_the_labs_table(graph: Graph, context: Context) -> None:
    row = rows_by(run("types", graph, context), "node")["hidden"]
    assert (row["kind"], row["op"], row["call"], row["target"]) == (
        "module_related_func",
        "linear",
        "call_module",
        "hidden",
    )


def test_shapes_name_free_sizes(graph: Graph, context: Context) -> None:
    report = run("shapes", graph, context)
    row = next(r for r in report.rows if r["node"] == "hidden" and r["port"] == "data_out")
    assert row["shape"] == ("batch", "seq", 4) and row["sizes"] == (2, 3, 4) and row["elements"] == 24
    assert report.summary["symbols"] == {"batch": 2, "seq": 3}


def test_a_tied_weight_counts_once(graph: Graph, context: Context) -> None:
    report = run("parameters", graph, context)
    rows = rows_by(report, "module")
    assert report.summary == {"parameters": 40 + 20 + 8, "trainable": 48, "frozen": 20, "bytes": 272}
    assert sum(r["parameters"] for r in report.rows) == 68
    assert rows["head"]["parameters"] == 0 and rows["head"]["tied"] == ("embed.weight",)
    assert rows["hidden"]["parameters"] == 20 and rows["hidden"]["trainable"] == 0


def test_cost_of_one_sample_by_hand(graph: Graph, context: Context) -> None:
    report = run("cost", graph, context)
    rows = rows_by(report, "node")
    assert rows["hidden"]["macs"] == 3 * 4 * 4
    assert rows["hidden"]["flops"] == 2 * 48 + 12  # the bias adds one per output
    assert rows["hidden"]["bitops"] == 48 * 32 * 32
    assert rows["hidden"]["bytes"] == 4 * (12 + 16 + 4 + 12)
    assert rows["hidden"]["weight_bytes"] == 4 * 20
    assert rows["head"]["macs"] == 3 * 4 * 10
    assert rows["embed"]["weight_bytes"] == 4 * 12  # only the rows that are looked up
    assert report.summary["macs"] == 48 + 120 and report.summary["symbols"] == {"batch": 1, "seq": 3}


def test_cost_follows_the_formats_as_the_score_does(graph: Graph, context: Context) -> None:
    chosen = {"weight": Precision(Integer(4, 2)), "data_in": Precision(Integer(8, 4))}
    cheap = graph.replace(replace(graph["hidden"], precision=chosen))
    report = run("cost", cheap, context)
    row = rows_by(report, "node")["hidden"]
    assert row["bitops"] == 48 * 4 * 8
    assert row["bytes"] == 12 + 8 + 16 + 48
    assert report.summary["bitops"] == bitops(cheap)


def test_statistics_against_torch(graph: Graph, context: Context) -> None:
    row = rows_by(run("statistics", graph, context), "weight")["hidden.weight"]
    weight = torch.from_numpy(context.store.get(graph.weights["hidden.weight"].key or "").array).double()
    assert row["min"] == weight.min() and row["max"] == weight.max()
    assert row["mean"] == pytest.approx(float(weight.mean()))
    assert row["std"] == pytest.approx(float(weight.std(correction=0)))
    assert row["abs_mean"] == pytest.approx(float(weight.abs().mean()))
    assert row["q50"] == pytest.approx(float(weight.quantile(0.5)))
    assert row["zeros"] == 0 and row["not_finite"] == 0


def test_statistics_see_masks_and_odd_values(graph: Graph, context: Context) -> None:
    pruned, _ = prune(graph, PruneOptions(0.5), context)
    assert rows_by(run("statistics", pruned, context), "weight")["hidden.weight"]["zeros"] == 8
    from espalier.model.store.weights import Tensor

    odd = context.store.hold(Tensor(np.array([np.nan, np.inf, 1, 0], np.float32), "float32"))
    spoilt = graph.with_weights({"hidden.bias": Weight(odd, (4,), "float32")})
    row = rows_by(run("statistics", spoilt, context), "weight")["hidden.bias"]
    assert (row["not_finite"], row["zeros"], row["min"], row["max"]) == (2, 1, 0.0, 1.0)


def test_quantization_errors_by_definition(graph: Graph, context: Context) -> None:
    fmt = Integer(4, 3)
    report = run("quantization", graph.replace(replace(graph["hidden"], precision={"weight": Precision(fmt)})), context)
    (row,) = report.rows
    x = torch.from_numpy(context.store.get(graph.weights["hidden.weight"].key or "").array).double()
    error = x - straight_through(fmt, x.float()).double()
    assert row["sqnr_db"] == pytest.approx(10 * math.log10(float(x.square().sum() / error.square().sum())))
    assert row["max_error"] == pytest.approx(float(error.abs().max()))
    assert row["saturated"] == pytest.approx(float((~fmt.inside(x)).double().mean()))
    assert report.summary["worst"] == "hidden"


def test_no_loss_has_no_sqnr(graph: Graph, context: Context) -> None:
    fmt = Integer(32, 40)
    ones = context.store.hold(
        type(context.store.get(graph.weights["norm.weight"].key or ""))(np.zeros((4, 4), np.float32), "float32")
    )
    zeroed = graph.with_weights({"hidden.weight": Weight(ones, (4, 4), "float32")})
    node = replace(zeroed["hidden"], precision={"weight": Precision(fmt)})
    (row,) = run("quantization", zeroed.replace(node), context).rows
    assert row["sqnr_db"] is None and row["zeros"] == 1.0 and row["max_error"] == 0


@pytest.mark.parametrize("name", ["statistics", "quantization"])
def test_without_weights_it_says_so(name: str, graph: Graph, context: Context) -> None:
    hollow = graph.with_weights({k: replace(w, key=None) for k, w in graph.weights.items()})
    node = replace(hollow["hidden"], precision={"weight": Precision(Integer(8, 4))})
    with pytest.raises(PassError, match="without weights"):
        run(name, hollow.replace(node), context)


def test_instant_reports_need_no_torch(root: Path) -> None:
    """They run in the window's process, where torch must not be loaded."""
    code = (
        "import sys\n"
        "from espalier.passes import analysis\n"
        "from pathlib import Path\n"
        "from espalier.model.graph.graph import Graph, Node, Ref\n"
        "from espalier.model.registry import PASSES, walk\n"
        "from espalier.model.store.weights import WeightStore\n"
        "from espalier.passes.base import Context, NoOptions\n"
        "walk(analysis)\n"
        "nodes = {'x': Node('x', 'placeholder', 'placeholder', 'x'),\n"
        "         'output': Node('output', 'output', 'output', 'output', (Ref('x'),))}\n"
        f"for name in {INSTANT!r}:\n"
        "    spec = PASSES.get(name)\n"
        "    assert spec.instant, name\n"
        "    spec.run(Graph(nodes), NoOptions(), Context(WeightStore(Path('.'))))\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
