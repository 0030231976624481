"""The guide: all pages listed, links lead somewhere, generated pages fresh, what they say to run can be run."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import espalier as es
from espalier.app.cli import commands, main, parser_of, window_parser
from espalier.app.features.guide.pages import ROOT, headings, lines_of, links, pages, plain, resolved, search, slug
from espalier.model.formats.base import make_format
from espalier.model.formats.integer import Integer
from espalier.model.opening import open_source
from espalier.model.torch.tensors import to_torch
from espalier.model.trust import Origin
from espalier.passes.plugins.plugins import load_plugin, unload_plugins
from espalier.passes.recipes.config import load_recipe
from espalier.passes.search.feasibility import check_pruner
from espalier.passes.search.goals import wanted
from espalier.passes.search.spec_file import read_search
from tests.contract import test_formats
from tests.reference.examples import blocks, commands_of, written
from tests.reference.pages import stale
from tests.task_models import write_task

REPOSITORY = ROOT.parents[1]
README = REPOSITORY / "README.md"
WORDS_A_SENTENCE = 22
PEER = Integer(8, 4)  # the format that the guide's is most like
PICTURE = 250_000


@pytest.fixture(autouse=True)
def no_plugins() -> Iterator[None]:
    yield
    unload_plugins()


# ---- pages -------------------------------------------------------------------------------------------------


def test_every_page_is_in_the_contents() -> None:
    listed = {p.path for p in pages()}
    assert {f.relative_to(ROOT).as_posix() for f in ROOT.rglob("*.md")} == listed


def test_titles_are_told_apart() -> None:
    titles = [p.title for p in pages() if not p.under]
    assert len(set(titles)) == len(titles)


def test_generated_pages_are_fresh() -> None:
    assert stale() == [], "run `make guide`"


@pytest.mark.parametrize("path", [p.path for p in pages()])
def test_links_lead_somewhere(path: str) -> None:
    for _, target in links((ROOT / path).read_text(encoding="utf-8")):
        if target.startswith("https://"):
            continue
        file, section = resolved(path, target)
        assert (ROOT / file).is_file() and file, target
        if section:
            assert section in map(slug, headings((ROOT / file).read_text(encoding="utf-8"))), target


def sentences(text: str) -> list[str]:
    """Those of paragraphs and list items: no code, tables, headings."""
    prose = "\n".join(
        line for line, code in lines_of(text) if not code and not line.startswith(("|", "#", "    ", "!["))
    )
    parts = re.split(r"\n(?:\s*\n|(?=\s*(?:- |\d+\. )))", prose)
    found = [s for part in parts for s in re.split(r"(?<=[.?!:])\s+(?=[A-Z*`\[])", plain(part)) if s]
    return [s for s in found if len(s.split()) > 2]


@pytest.mark.parametrize("path", [p for p in written() if not p.startswith("decisions/")])
def test_sentences_are_short(path: str) -> None:
    counts = [len(s.split()) for s in sentences((ROOT / path).read_text(encoding="utf-8"))]
    assert sum(counts) <= WORDS_A_SENTENCE * max(len(counts), 1), sum(counts) / len(counts)


def test_decisions_are_numbered_records() -> None:
    files = sorted((ROOT / "decisions").glob("[0-9]*.md"))
    assert [int(f.name[:3]) for f in files] == list(range(1, len(files) + 1))
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert headings(text)[1:] == ["Context", "Decision", "Consequence"], file.name
        assert re.search(r"^Status: (accepted|replaced by \d{3}), \d{4}-\d\d-\d\d\.$", text, re.M), file.name


# ---- the README --------------------------------------------------------------------------------------------


def test_the_readme_is_short_and_names_the_command_of_ci() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 250
    assert re.search(r"^    make run +#", text, re.M)
    (command,) = re.findall(r"^    (make test) +#", text, re.M)
    run = (REPOSITORY / ".ci/run").read_text(encoding="utf-8").strip().splitlines()[-1]
    assert run == f"exec env NEWEST=1 {command}"


def test_links_of_the_readme_lead_somewhere() -> None:
    for _, target in links(README.read_text(encoding="utf-8")):
        file, _, section = target.partition("#")
        assert (REPOSITORY / file).is_file(), target
        if section:
            assert section in map(slug, headings((REPOSITORY / file).read_text(encoding="utf-8"))), target


def test_pictures_are_compact_and_used() -> None:
    held = {f.name: f.stat().st_size for f in (ROOT / "pictures").iterdir()}
    assert max(held.values()) <= PICTURE
    texts = README.read_text(encoding="utf-8") + "".join(p.text() for p in pages())
    assert [name for name in held if name not in texts] == []


# ---- what pages say to run ---------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [p for p in written() if any(commands_of(p))])
def test_commands_are_read(path: str) -> None:
    for name, *words in commands_of(path):
        if name in commands():
            parser_of(commands()[name]).read(words)
        else:
            window_parser().read([name, *words])


def test_recipes_are_read() -> None:
    found = [b for p in written() for b in blocks(p, "toml") if "pass =" in b]
    assert len(found) >= 6
    for block in found:
        assert load_recipe(tomllib.loads(block)).steps


def test_searches_are_read_and_can_begin() -> None:
    pages = [p for p in written() if not p.startswith("how-to/")]  # those name costs of plug-ins
    found = [b for p in pages for b in blocks(p, "toml") if "[[space]]" in b]
    assert len(found) >= 2
    for block in found:
        _, spec = read_search(tomllib.loads(block), ROOT)
        check_pruner(spec, wanted(replace(spec, within=())), trains=spec.train != "none")


def put(folder: Path, page: str, name: str, which: int = 0) -> Path:
    """A plug-in of a how-to page as a file."""
    (folder / name).write_text(blocks(f"how-to/{page}.md", "python")[which], encoding="utf-8")
    return folder / name


def run(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main([str(w) for w in words]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_the_format_of_the_guide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = put(tmp_path, "format", "my_symmetric.py")
    text = run(capsys, "formats", "my_symmetric(width=3, frac_width=1)", "--codes", "--plugin", file)
    assert "1.5" in text and "2.0" not in text


def test_the_recipe_of_the_format_of_the_guide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the page's shell writes it."""
    file = put(tmp_path, "format", "my_symmetric.py")
    written = next(line for line in "".join(blocks("how-to/format.md", "bash")).splitlines() if line[:6] == "printf")
    subprocess.run(["sh", "-c", written], cwd=tmp_path, check=True)
    words = ("run", "demo:digits-mlp", tmp_path / "recipe.toml", "--plugin", file, "--limit", 20, "--json")
    assert 6 <= json.loads(run(capsys, *words))["after"]["weight_bits"] < 7


def test_the_analysis_of_the_guide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its shares are those that numpy counts."""
    file = put(tmp_path, "pass", "my_outliers.py", 1)
    words = ("report", "demo:digits-mlp", "--what", "my_outliers", "--plugin", file, "--json")
    rows = json.loads(run(capsys, *words))["rows"]
    opened = open_source("demo:digits-mlp", tmp_path, origin=Origin.TYPED)
    values = {k: v for k, v in opened.project.base.weights.items() if k.endswith("weight")}
    held = [to_torch(opened.store.get(v.key)).double().numpy() for v in values.values()]
    want = [float((np.abs(w - w.mean()) > 3 * w.std()).mean()) for w in held]
    assert [r["share"] for r in rows] == pytest.approx(want) and max(want) > 0


@pytest.mark.parametrize("values", [{}, {"width": 3, "frac_width": 1}, {"width": 6, "frac_width": 9}], ids=str)
def test_the_format_of_the_guide_keeps_the_rules_that_the_page_names(tmp_path: Path, values: dict[str, int]) -> None:
    load_plugin(put(tmp_path, "format", "my_symmetric.py"))
    fmt = make_format("my_symmetric", values)
    laws = [f for f in vars(test_formats).values() if PEER in checked(f)]
    assert len(laws) > 8
    for law in laws:
        law(fmt)
    test_formats.test_parameters_have_help_and_bounds("my_symmetric", type(fmt))


def checked(test: Any) -> list[Any]:
    """The formats that a contract test of one format runs on."""
    marks = [m for m in getattr(test, "pytestmark", []) if m.name == "parametrize"]
    return [f for m in marks if len(marks) == 1 and m.args[0] == "fmt" for f in m.args[1]]


def test_the_pass_of_the_guide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = put(tmp_path, "pass", "my_rounding.py")
    (tmp_path / "r.toml").write_text('[[steps]]\npass = "my_rounding"\noptions = {width = 6}\n')
    text = run(capsys, "run", "demo:digits-mlp", tmp_path / "r.toml", "--plugin", file, "--limit", 20, "--json")
    assert 6 <= json.loads(text)["after"]["weight_bits"] < 7


def test_the_pass_of_the_guide_that_changes_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Other weights, the same function."""
    file = put(tmp_path, "pass", "my_equalize.py", 2)
    (tmp_path / "r.toml").write_text('[[steps]]\npass = "my_equalize"\n')
    text = run(capsys, "run", "demo:digits-mlp", tmp_path / "r.toml", "--plugin", file, "--limit", 50, "--json")
    found = json.loads(text)
    assert found["steps"][0]["report"]["summary"]["pairs"] == 2
    assert found["after"]["loss"] == pytest.approx(found["before"]["loss"], rel=1e-5)


def test_the_cost_of_the_guide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = put(tmp_path, "cost", "my_traffic.py")
    out = tmp_path / "r.toml"
    run(capsys, "allocate", "demo:digits-mlp", "--budget", "my_traffic<=8000", "--plugin", file, "-o", out,
        "--ports", "weight", "--formats", "integer(width=4|8), float", "--limit", 32)  # fmt: skip
    assert "quantize" in out.read_text()


def test_the_search_for_the_cost_of_the_guide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = put(tmp_path, "cost", "my_traffic.py")
    (spec,) = blocks("how-to/cost.md", "toml")
    (tmp_path / "traffic.toml").write_text(spec)
    words = ("search", "demo:digits-mlp", tmp_path / "traffic.toml", "--plugin", file, "--limit", 20, "--json")
    found = json.loads(run(capsys, *words, "-o", tmp_path / "trials.csv"))
    assert 0 < found["best"]["values"]["my_traffic"] <= 8000 and found["best"]["feasible"]


def test_the_data_source_of_the_guide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = put(tmp_path, "data-source", "my_npz.py")
    np.savez(tmp_path / "d.npz", x_test=np.random.default_rng(0).random((40, 1, 8, 8)), y_test=np.arange(40) % 10)
    words = ("evaluate", "demo:digits-mlp", "--plugin", file, "--json", "--data")
    assert json.loads(run(capsys, *words, f"npz:{tmp_path / 'd.npz'}"))["n"] == 40
    assert main([*map(str, words), f"npz:{tmp_path / 'none.npz'}"]) == 2
    assert "numpy.savez" in json.loads(capsys.readouterr().out)["error"]["hint"]


@pytest.mark.slow
def test_the_task_of_the_guide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its loss is that of scikit-learn; it trains, and is the goal of a search."""
    metrics = pytest.importorskip("sklearn.metrics")
    file = put(tmp_path, "task", "my_quantile.py")
    write_task(tmp_path, "regression", count=60, steps=3)
    words = (tmp_path, "--data", tmp_path / "data", "--task", "quantile", "--plugin", file, "--json")
    found = json.loads(run(capsys, "evaluate", *words))
    m = es.open(str(tmp_path))
    seen: dict[str, Any] = {}
    m.evaluate(str(tmp_path / "data"), metric=lambda out, y: seen.update(out=out[:, 0], y=y) or 0.0)
    assert found["pinball"] == pytest.approx(metrics.mean_pinball_loss(seen["y"], seen["out"], alpha=0.9), rel=1e-5)
    assert found["metric"] == "pinball" and found["intervals"]["coverage"][0] <= found["coverage"]
    data = f'data = "{tmp_path / "data"}", task = "quantile"'
    (tmp_path / "r.toml").write_text(
        f'[[steps]]\npass = "finetune"\noptions = {{{data}, max_steps = 20, learning_rate = 1e-2}}\n'
    )
    trained = json.loads(run(capsys, "run", tmp_path, tmp_path / "r.toml", *words[1:]))
    assert trained["after"]["pinball"] < found["pinball"]
    (tmp_path / "s.toml").write_text('trials = 2\n[[space]]\nvalues = "integer(width=4|8)"\n')
    best = json.loads(run(capsys, "search", tmp_path, tmp_path / "s.toml", *words[1:]))["best"]
    assert set(best["values"]) == {"pinball"}


@pytest.mark.slow
def test_the_hardware_operation_of_the_guide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its model and the recipe of the page of hardware; tests/verilog simulates it."""
    file = put(tmp_path, "hardware-operation", "my_leaky.py")
    model = put(tmp_path, "hardware-operation", "net.py", 1)
    (tmp_path / "my_leaky.sv").write_text(blocks("how-to/hardware-operation.md", "systemverilog")[0])
    (tmp_path / "hw.toml").write_text(next(b for b in blocks("hardware.md", "toml") if "# hw.toml" in b))
    made = tmp_path / "leaky.espalier"
    run(capsys, "run", f"{model}:make", tmp_path / "hw.toml", "--plugin", file, "-o", made)
    assert "my_leaky" in run(capsys, "emit", made, "-o", tmp_path / "rtl", "--plugin", file)


@pytest.mark.slow
def test_the_kernel_of_the_guide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = put(tmp_path, "kernel", "my_square.py")
    text = run(capsys, "kernels", "my_square", "--plugin", file, "--shapes", "16x16", "--seconds", "0.02")
    assert "power" in text


# ---- search ------------------------------------------------------------------------------------------------


def test_search_finds_sections_with_all_words() -> None:
    hits = search("storage token")
    assert hits[0].page.path == "fleets.md" and hits[0].heading == "The storage server"
    assert all("token" in (h.snippet + h.heading + h.page.text()).casefold() for h in hits)


def test_a_heading_comes_before_a_mention() -> None:
    assert search("unrolled engine")[0].heading == "The unrolled engine"
    assert search("LoRA")[0].page.path == "lora.md"


def test_search_without_a_result() -> None:
    assert search("") == [] and search("zzzz quokka") == []
