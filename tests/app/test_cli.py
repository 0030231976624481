"""The command line in this process: each command's answer, as JSON and as text, against the contract."""

from __future__ import annotations

import csv
import json
import math
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from espalier.app.cli import main
from espalier.passes.plugins.plugins import unload_plugins

BERT = (
    "config:bert?num_hidden_layers=1&hidden_size=32&num_attention_heads=2&intermediate_size=64&vocab_size=100"
    "&task=sequence-classification"
)
RECIPE = {
    "quantize_transform_pass": {
        "by": "type",
        "linear": {"config": {"name": "integer", "weight_width": 8, "weight_frac_width": 6, "data_in_width": 8}},
    },
    "prune": {"sparsity": 0.5},
}
SCORE = {"accuracy", "loss", "size_bytes", "weight_bits", "activation_bits", "sparsity", "bitops", "memory_density",
         "activation_sparsity"}  # fmt: skip
Capture = pytest.CaptureFixture[str]


def answer(capsys: Capture, *words: object) -> dict[str, Any]:
    """The one JSON object that a command prints."""
    assert main([*map(str, words), "--json"]) == 0, capsys.readouterr().err
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    found: dict[str, Any] = json.loads(out)
    return found


def text(capsys: Capture, *words: object) -> str:
    """What a command prints for a person."""
    assert main(list(map(str, words))) == 0, capsys.readouterr().err
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("projects") / "bert.espalier"
    assert main(["trace", BERT, "-o", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("projects") / "digits.espalier"
    assert main(["trace", "demo:digits", "-o", str(path)]) == 0
    return path


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(RECIPE))
    return path


# -- trace


@pytest.mark.slow
def test_trace_verifies_at_other_sizes(capsys: Capture) -> None:
    found = answer(capsys, "trace", BERT, "--verify")
    assert {"nodes", "edges", "kinds", "ops", "parameters", "dynamic", "fixed", "problems", "seconds"} <= set(found)
    assert found["nodes"] == sum(found["ops"].values()) == sum(found["kinds"].values())
    assert set(found["seconds"]) == {"capture", "raise", "check"}
    assert found["max_abs_diff"] < 1e-5
    batches, lengths = ({s[k] for s in found["verified"]} for k in ("batch", "seq"))
    assert len(batches) >= 4 and len(lengths) >= 4 and 1 in batches
    assert found["dynamic"]["seq"] and not found["problems"]


def test_trace_without_verify_measures_nothing(capsys: Capture) -> None:
    found = answer(capsys, "trace", "demo:digits")
    assert found["max_abs_diff"] is None
    assert found["dynamic"] == {"batch": ["x[0]"]} and found["fixed"] == ["x[1]", "x[2]", "x[3]"]


@pytest.mark.slow
def test_trace_chooses_inputs(capsys: Capture) -> None:
    with_mask = answer(capsys, "trace", BERT, "--inputs", "input_ids,attention_mask")
    without = answer(capsys, "trace", BERT, "--inputs", "input_ids")
    labelled = answer(capsys, "trace", BERT, "--inputs", "input_ids, labels")
    assert without["nodes"] < with_mask["nodes"]
    assert "cross_entropy" in labelled["ops"] and "cross_entropy" not in without["ops"]


def test_trace_for_people(capsys: Capture) -> None:
    out = text(capsys, "trace", "demo:digits")
    assert "15\u2009498" in out and "conv2d 3" in out and "batch = x[0]" in out


def test_trace_draws(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "graph.svg"
    answer(capsys, "trace", "demo:digits", "--svg", path)
    root = ElementTree.parse(path).getroot()
    assert root.tag.endswith("svg") and "conv2d" in path.read_text().lower()


def test_a_model_that_prints_breaks_nothing(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "loud.py"
    path.write_text(
        "import torch\nprint('hello')\n"
        "class Loud(torch.nn.Linear):\n"
        "    def forward(self, x):\n        print('forward')\n        return super().forward(x)\n"
        "def make():\n    print('made')\n    return Loud(4, 4), {'x': torch.randn(2, 4)}\n"
    )
    assert answer(capsys, "trace", f"{path}:make", "--verify")["max_abs_diff"] == 0


# -- run


@pytest.mark.slow
def test_run_scores_before_and_after(capsys: Capture, bert: Path, recipe: Path, tmp_path: Path) -> None:
    found = answer(capsys, "run", bert, recipe, "-o", tmp_path / "after.espalier")
    assert set(found["before"]) >= SCORE and set(found["after"]) >= SCORE
    assert found["before"]["accuracy"] is None and found["after"]["loss"] is None
    assert found["before"]["sparsity"] == 0 and found["after"]["sparsity"] == pytest.approx(0.5)
    assert found["after"]["size_bytes"] < found["before"]["size_bytes"]
    assert [s["pass"] for s in found["steps"]] == ["quantize", "prune"]
    assert all(s["seconds"] >= 0 and s["report"]["rows"] for s in found["steps"])
    again = answer(capsys, "report", tmp_path / "after.espalier", "--what", "quantization")
    assert len(again["rows"]) == 8


@pytest.mark.slow
def test_run_names_a_weight_that_is_not_finite(capsys: Capture, recipe: Path, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\n\n\ndef make():\n    model = torch.nn.Sequential(torch.nn.Linear(4, 4))\n"
        "    model[0].weight.data[1, 2] = float('nan')\n    return model, {'input': torch.randn(2, 4)}\n"
    )
    found = answer(capsys, "run", f"{tmp_path / 'net.py'}:make", recipe_of(tmp_path))
    assert len(found["problems"]) == 1 and found["problems"][0].startswith("0.weight holds 1 value")
    assert answer(capsys, "run", BERT, recipe)["problems"] == []


def recipe_of(folder: Path) -> Path:
    path = folder / "quantize.json"
    path.write_text(json.dumps({"quantize_transform_pass": RECIPE["quantize_transform_pass"]}))
    return path


def test_run_measures_a_demo_on_its_own_data(capsys: Capture, digits: Path, recipe: Path) -> None:
    found = answer(capsys, "run", digits, recipe)
    assert found["before"]["accuracy"] > 0.95
    assert 0 <= found["after"]["accuracy"] <= found["before"]["accuracy"]
    assert found["before"]["n"] == found["after"]["n"]


def test_equal_seeds_give_equal_results(capsys: Capture, digits: Path, tmp_path: Path) -> None:
    path = tmp_path / "random.toml"
    path.write_text('steps = [{pass = "prune", options = {sparsity = 0.7, method = "random"}}]')
    runs = [answer(capsys, "run", digits, path, "--seed", seed)["after"] for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.slow
def test_a_second_recipe_comes_after_the_first(capsys: Capture, bert: Path, recipe: Path, tmp_path: Path) -> None:
    first, second, steps = tmp_path / "1.espalier", tmp_path / "2.espalier", tmp_path / "steps.json"
    steps.write_text('{"remove_dropout": {}}')
    answer(capsys, "run", bert, steps, "-o", first)
    found = answer(capsys, "run", first, recipe, "-o", second)
    assert found["after"]["sparsity"] == pytest.approx(0.5)
    exported = tmp_path / "all.json"
    answer(capsys, "export", second, "--as", "recipe", "-o", exported)
    names = [s["pass"] for s in json.loads(exported.read_text())["steps"]]
    assert names == ["remove_dropout", "quantize", "prune"]


def test_run_for_people(capsys: Capture, bert: Path, recipe: Path) -> None:
    out = text(capsys, "run", bert, recipe)
    assert "before" in out and "after" in out and "50.0%" in out and "KiB" in out


# -- evaluate and report


def test_evaluate(capsys: Capture, digits: Path) -> None:
    found = answer(capsys, "evaluate", digits, "--data", "demo:digits", "--limit", 50)
    assert set(found) >= SCORE and found["n"] == 50 and found["accuracy"] > 0.9
    assert answer(capsys, "evaluate", digits)["n"] > 50


@pytest.mark.slow
def test_labels_that_are_not_the_models_are_told(capsys: Capture, tmp_path: Path) -> None:
    data, recipe = tmp_path / "rows.csv", tmp_path / "recipe.json"
    data.write_text("text,label\nthe film was good,7\nthe film was bad,9\n")
    recipe.write_text("{}")
    for call in (("evaluate", "demo:reviews"), ("run", "demo:reviews", recipe)):
        assert main([*map(str, call), "--data", str(data)]) == 0
        assert "9 counts as 1 positive" in capsys.readouterr().err
        found = answer(capsys, *call, "--data", data)
        assert "7 counts as 0 negative" in found.get("before", found)["warning"]


@pytest.mark.slow
def test_a_lone_file_is_measured_whole(capsys: Capture, tmp_path: Path) -> None:
    data = tmp_path / "rows.csv"
    data.write_text("text,label\n" + "the film was good,1\nthe film was bad,0\n" * 20)
    call = ("evaluate", "demo:reviews", "--data", data)
    assert answer(capsys, *call)["n"] == 40
    sizes = {s: answer(capsys, *call, "--split", s)["n"] for s in ("train", "validation", "test", "all")}
    assert sizes == {"train": 32, "validation": 4, "test": 4, "all": 40}
    assert main(["evaluate", "--help"]) == 0
    assert "all rows of a lone file" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("name", ["graph", "shapes", "types", "parameters", "cost", "statistics", "count_dropout"])
def test_reports_have_rows(capsys: Capture, bert: Path, name: str) -> None:
    found = answer(capsys, "report", bert, "--what", name)
    assert found["rows"] and all(row["report"] == name for row in found["rows"])
    assert found["summary"][name]


def test_report_files(capsys: Capture, bert: Path, tmp_path: Path) -> None:
    files = {k: tmp_path / f"report.{k}" for k in ("csv", "html", "json")}
    for path in files.values():
        answer(capsys, "report", bert, "--what", "shapes", "-o", path)
    rows = list(csv.DictReader(files["csv"].read_text().splitlines()))
    assert rows[0]["node"] == "input_ids" and rows[0]["shape"] == "batch seq"
    assert len(rows) == len(json.loads(files["json"].read_text())["rows"])
    page = files["html"].read_text()
    assert page.startswith("<!doctype html>") and page.count("<tr>") == len(rows) + 1


def test_report_for_people(capsys: Capture, digits: Path) -> None:
    out = text(capsys, "report", digits, "--what", "parameters,cost")
    assert "Parameters" in out and "Cost" in out and "classifier" in out


# -- formats


def test_formats_lists_all(capsys: Capture) -> None:
    found = answer(capsys, "formats")["formats"]
    assert "integer" in {f["name"] for f in found} and all(f["formula"] and f["parameters"] for f in found)
    assert "integer(width=8" in text(capsys, "formats")


def test_formats_describes_one(capsys: Capture) -> None:
    found = answer(capsys, "formats", "integer(width=3, frac_width=1)", "--codes")
    assert found["bits"] == 3 and found["codes"] == [-2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5]
    assert "int 8/4" in answer(capsys, "formats", "integer")["label"]


def test_codes_that_are_too_many_leave_the_array_its_answer(capsys: Capture, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.linspace(-1, 1, 9, dtype=np.float32))
    assert main(["formats", "integer(width=32)", "--apply", f"{tmp_path}/x.npy", f"{tmp_path}/y.npy", "--codes"]) == 0
    found = capsys.readouterr()
    assert "9" in found.out and "codes are omitted" in found.err and (tmp_path / "y.npy").is_file()


def test_an_empty_recipe_is_told(capsys: Capture, digits: Path, tmp_path: Path) -> None:
    (tmp_path / "none.toml").write_text("")
    assert main(["run", str(digits), str(tmp_path / "none.toml")]) == 0
    assert "The recipe has no steps." in capsys.readouterr().err


def test_an_exported_program_of_fixed_sizes_is_verified(capsys: Capture, tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.Flatten()).eval()
    torch.export.save(torch.export.export(net, (torch.randn(1, 1, 4, 4),)), tmp_path / "net.pt2")
    found = answer(capsys, "trace", tmp_path / "net.pt2", "--verify")
    assert found["max_abs_diff"] < 1e-5 and len(found["verified"]) == 1 and not found["problems"]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", ">f4"])
def test_formats_applies_one(capsys: Capture, tmp_path: Path, dtype: str) -> None:
    source, result = tmp_path / "in.npy", tmp_path / "out.npy"
    values = np.linspace(-3, 3, 24).reshape(2, 3, 4).astype(dtype)
    np.save(source, values)
    found = answer(capsys, "formats", "integer(width=5,frac_width=2)", "--apply", source, result)
    written = np.load(result, allow_pickle=False)
    expected = np.clip(np.rint(values.astype(np.float64) * 4), -16, 15) / 4
    assert written.dtype == np.dtype(dtype).newbyteorder("=") and (written == expected).all()
    error = values.astype(np.float64) - expected
    sqnr = 10 * math.log10((values.astype(np.float64) ** 2).sum() / (error**2).sum())
    assert found["sqnr_db"] == pytest.approx(sqnr, rel=1e-3) and found["bits"] == 5


def test_no_error_has_no_sqnr(capsys: Capture, tmp_path: Path) -> None:
    source = tmp_path / "in.npy"
    np.save(source, np.array(0.5, np.float32))
    found = answer(capsys, "formats", "integer", "--apply", source, tmp_path / "out.npy")
    assert found["sqnr_db"] is None and np.load(tmp_path / "out.npy").shape == ()


# -- the rest


def test_help_everywhere(capsys: Capture) -> None:
    assert main(["--help"]) == 0
    overview = capsys.readouterr().out
    for name in ("trace", "run", "evaluate", "report", "formats", "export"):
        assert name in overview
        assert main([name, "--help"]) == 0
        told = capsys.readouterr()
        assert "--seed" in told.out and "--json" in told.out and "--plugin" in told.out and not told.err


def test_common_options_may_come_first(capsys: Capture) -> None:
    assert main(["--json", "--seed", "3", "formats"]) == 0
    assert "formats" in json.loads(capsys.readouterr().out)


def test_a_plugin_of_the_labs(capsys: Capture, bert: Path, tmp_path: Path) -> None:
    plugin, steps = tmp_path / "cli_plugin.py", tmp_path / "steps.json"
    plugin.write_text(
        "from chop.tools import get_logger\n"
        "def cli_plugin_transform_pass(mg, pass_args={}):\n"
        "    print('a pass that prints')\n"
        "    for node in mg.fx_graph.nodes:\n"
        "        if node.op == 'call_module' and 'dropout' in node.target:\n"
        "            node.replace_all_uses_with(node.args[0])\n"
        "            mg.fx_graph.erase_node(node)\n"
        "    return mg, {'asked': pass_args['how']}\n"
    )
    steps.write_text('{"steps": [{"pass": "cli_plugin_transform_pass", "options": {"args": {"how": "well"}}}]}')
    found = answer(capsys, "run", bert, steps, "--plugin", plugin, "-o", tmp_path / "out.espalier")
    assert found["steps"][0]["report"]["summary"] == {"asked": "well"}
    left = answer(capsys, "report", tmp_path / "out.espalier", "--what", "graph")["summary"]["graph"]["ops"]
    assert "dropout" not in left


def test_what_a_plugin_raises_names_its_line(tmp_path: Path, capsys: Capture) -> None:
    """The report holds the traceback."""
    (plugin := tmp_path / "own_faults.py").write_text(
        "from espalier.passes.base import NoOptions, Report, transform\n"
        "@transform('cli_faulty_pass', 'Faulty', NoOptions)\n"
        "def cli_faulty_pass(graph, options, context):\n"
        "    return graph.nothing, Report('cli_faulty_pass')\n"
    )
    (steps := tmp_path / "r.toml").write_text('[[steps]]\npass = "cli_faulty_pass"\n')
    assert main(["run", "demo:digits-mlp", str(steps), "--plugin", str(plugin), "--json"]) == 2
    told = capsys.readouterr()
    error = json.loads(told.out)["error"]
    assert error["kind"] == "plugin" and "own_faults.py raised AttributeError" in error["message"]
    assert error["message"].endswith("(line 4).") and error["hint"].startswith("Correct the file")
    assert "Traceback" in Path(error["hint"].rpartition("Traceback: ")[2]).read_text()


def test_a_bug_is_one_line_and_a_file(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(text: str) -> None:
        raise ZeroDivisionError("by\nzero")

    monkeypatch.setattr("espalier.app.commands.formats.parse_format", fail)
    assert main(["formats", "integer"]) == 1
    told = capsys.readouterr()
    assert not told.out and told.err.count("\n") == 1 and "ZeroDivisionError: by zero" in told.err
    report = Path(told.err.rpartition("Report: ")[2].strip())
    assert "Traceback" in report.read_text()


def test_with_json_failures_are_json_too(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["formats", "integr", "--json"]) == 2
    told = capsys.readouterr()
    error = {"message": "There is no format 'integr'.", "hint": "Did you mean 'integer'?", "kind": "format"}
    assert json.loads(told.out) == {"error": error} and told.err.splitlines() == [error["message"], error["hint"]]

    def fail(text: str) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("espalier.app.commands.formats.parse_format", fail)
    assert main(["formats", "integer", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["error"]
    assert found["kind"] == "bug" and "by zero" in found["message"] and "Report: " in found["hint"]


def test_a_project_without_its_plugin(capsys: Capture, digits: Path, tmp_path: Path) -> None:
    """One notice, the step kept, all else works; a recipe with an unknown pass is an error with the nearest name."""
    plugin, steps, project = tmp_path / "gone_plugin.py", tmp_path / "steps.json", tmp_path / "p.espalier"
    plugin.write_text("def gone_plugin_pass(mg, pass_args={}):\n    return mg, {}\n")
    steps.write_text('{"gone_plugin_pass": {"a": 1}}')
    answer(capsys, "run", digits, steps, "--plugin", plugin, "-o", project)
    unload_plugins()
    steps.write_text('{"prune": {"sparsity": 0.5}}')
    assert main(["run", str(project), str(steps), "-o", str(project), "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["after"]["sparsity"] == pytest.approx(0.5)
    assert told.err.count("gone_plugin_pass") == 1 and "--plugin" in told.err
    assert main(["export", str(project), "--as", "recipe", "-o", str(tmp_path / "r.json")]) == 0
    kept = json.loads((tmp_path / "r.json").read_text())["steps"]
    assert kept[0]["pass"] == "gone_plugin_pass" and kept[0]["options"] == {"args": {"a": 1}}
    capsys.readouterr()
    assert main(["run", str(digits), str(tmp_path / "r.json")]) == 2
    assert capsys.readouterr().err.startswith("Step 1 (gone_plugin_pass): There is no pass 'gone_plugin_pass'.")


def test_ctrl_c_takes_one_line(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(text: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("espalier.app.commands.formats.parse_format", interrupt)
    assert main(["formats", "integer"]) == 130
    assert capsys.readouterr() == ("", "Stopped.\n")
    assert main(["formats", "integer", "--json"]) == 130
    out, err = capsys.readouterr()
    error = {"message": "Stopped.", "hint": "Run it again.", "kind": "interrupt"}
    assert (json.loads(out), err) == ({"error": error}, "Stopped.\n")


def test_the_window_is_asked_for(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    class Fake:
        def open(self, target: str | None, plugins: list[str], theme: str | None, language: str | None) -> int:
            seen.append((target, *plugins, *filter(None, (theme, language))))
            return 0

        def render(self, *args: Any) -> None:
            seen.append(args)

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.delenv("QT_QPA_PLATFORM")
    assert main(["demo:digits"], Fake()) == 0 and main([], Fake()) == 0
    shot = tmp_path / "w.png"
    words = ["demo:digits", "--screenshot", str(shot), "--size", "800x600", "--theme", "dark", "--panel", "Score",
             "--language", "de"]  # fmt: skip
    assert main(words, Fake()) == 0
    assert main(["--plugin", "a.py", "demo:digits", "--plugin", "b.py"], Fake()) == 0
    assert main(["demo:digits", "--theme", "dark", "--language", "en"], Fake()) == 0
    assert main(["demo:digits", "--panel", "search"], Fake()) == 2 and "--screenshot" in capsys.readouterr().err
    assert seen == [("demo:digits",), (None,), ("demo:digits", [], shot, (800, 600), "dark", "Score", "de"),
                    ("demo:digits", "b.py", "a.py"), ("demo:digits", "dark", "en")]  # fmt: skip


def test_without_a_display_it_names_the_commands(capsys: Capture) -> None:
    assert main([], object()) == 2  # type: ignore[arg-type]  # no window is touched
    told = capsys.readouterr().err
    assert "display" in told and "trace" in told and "--screenshot" in told and told.count("\n") == 2
