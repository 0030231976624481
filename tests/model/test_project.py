"""Project files: nothing is lost, nothing half-written, what lies in a source is found; format 1 opens for ever."""

from __future__ import annotations

import json
import os
import shutil
import stat
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from espalier.model.document import project as project_module
from espalier.model.document.document import Document
from espalier.model.document.project import FORMAT, MIGRATIONS, keys_of, load_project, migration, save_project
from espalier.model.document.recipe import Raw, Recipe, Step
from espalier.model.errors import EspalierError, ProjectError
from espalier.model.opening import open_any, open_source
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.model.trust import Origin
from espalier.passes.base import Context, run_step
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.quantize import QuantizeOptions
from espalier.passes.recipes.replay import Memo, replay
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.select import Select
from espalier.passes.training.options import FinetuneOptions
from tests.model.project_cases import STEPS, folder, load, make, project_beside, rewritten, saved, source
from tests.model.zoo import case, run, same

__all__ = ["folder", "saved", "source"]

# -- round trip


@pytest.mark.parametrize("name", ["mlp", "tied", "image", "odd", "many", "twice", "bert"])
def test_nothing_is_lost(name: str, tmp_path: Path) -> None:
    project, store = make(name)
    save_project(project, store, tmp_path / "p.espalier")
    back, opened = load(tmp_path / "p.espalier")
    assert back == project and list(back.graph.nodes) == list(project.graph.nodes)
    for key in keys_of(project.base, project.graph):
        assert opened.get(key).key() == key
    inputs = case(name).fresh(2, 8)
    assert same(run(build(back.graph, opened), inputs), run(build(project.graph, store), inputs))
    assert replay(back.base, Recipe(back.recipe.active), Context(opened)).graph == back.graph


def test_a_second_save_is_the_same(saved: Path, tmp_path: Path) -> None:
    project, store = load(saved)
    save_project(project, store, tmp_path / "q.espalier")
    with zipfile.ZipFile(saved) as a, zipfile.ZipFile(tmp_path / "q.espalier") as b:
        assert {n: a.read(n) for n in a.namelist()} == {n: b.read(n) for n in b.namelist()}


def test_unknown_members_are_kept_byte_for_byte(tmp_path: Path) -> None:
    extras = {"studies/a.jsonl": b'{"trial": 1}\n\x00\xff', "later/thing.bin": os.urandom(1000), "empty/": b""}
    save_project(*make(extras=extras), tmp_path / "p.espalier")
    project, store = load(tmp_path / "p.espalier")
    assert project.extras == {"studies/a.jsonl": extras["studies/a.jsonl"]}
    assert project.sealed.keys() == {"later/thing.bin", "empty/"}  # not even read
    save_project(project, store, tmp_path / "p.espalier")
    with zipfile.ZipFile(tmp_path / "p.espalier") as archive:
        assert archive.testzip() is None
        assert {n: archive.read(n) for n in extras} == extras


def test_the_graph_is_written_once_when_nothing_was_done(tmp_path: Path) -> None:
    project, store = make(recipe=Recipe())
    save_project(replace(project, graph=project.base), store, tmp_path / "p.espalier")
    with zipfile.ZipFile(tmp_path / "p.espalier") as archive:
        assert set(json.loads(archive.read("graph.json"))) == {"base"}
    back, _ = load(tmp_path / "p.espalier")
    assert back.graph is back.base


@pytest.mark.slow
def test_files_hold_the_weights_and_little_else(tmp_path: Path) -> None:
    store = WeightStore(tmp_path / "work")
    path = tmp_path / "bert.espalier"
    opened = open_source("config:bert?hidden_size=128&num_hidden_layers=2&num_attention_heads=2", tmp_path / "work")
    save_project(opened.project, opened.store, path)
    sizes = {w.key: w.elements * w.float_bits // 8 for w in opened.project.base.weights.values()}
    weights = sum(sizes.values())
    assert weights > 15_000_000
    assert weights < path.stat().st_size < 1.02 * weights
    load_project(path, store)


def test_nothing_is_pickled(saved: Path) -> None:
    with zipfile.ZipFile(saved) as archive:
        for name in archive.namelist():
            data = archive.read(name)
            assert name.endswith((".json", ".safetensors"))
            if name.endswith(".json"):
                json.loads(data)
            else:
                assert int.from_bytes(data[:8], "little") < len(data) and data[8:9] == b"{"


def test_weights_are_aligned_and_stored(saved: Path) -> None:
    with zipfile.ZipFile(saved) as archive:
        assert archive.getinfo("weights/tensors.safetensors").compress_type == zipfile.ZIP_STORED
    project, store = load(saved)
    places = store.places()
    assert min(p.offset for p in places.values()) % 64 == 0
    assert all(store.get(k).array.flags.aligned for k in keys_of(project.base, project.graph))


# -- writing whole or not at all


@pytest.mark.parametrize("moment", ["write_stored", "fsync", "replace"])
def test_a_failed_save_leaves_the_old_file(moment: str, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved.read_bytes()
    project, store = load(saved)

    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    home = project_module if moment == "write_stored" else os
    with monkeypatch.context() as patch:
        patch.setattr(home, moment, fail)
        with pytest.raises(ProjectError, match="could not be written") as caught:
            save_project(replace(project, view={"new": 1}), store, saved)
    assert "No space left" in caught.value.message and caught.value.hint
    assert saved.read_bytes() == before and [f.name for f in saved.parent.iterdir()] == [saved.name]
    assert all(store.get(k).key() == k for k in keys_of(project.base, project.graph))
    save_project(replace(project, view={"new": 1}), store, saved)
    assert load(saved)[0].view == {"new": 1}


def test_places_that_cannot_be_written_are_told(tmp_path: Path) -> None:
    for path in (tmp_path / "no" / "folder" / "p.espalier", tmp_path):
        with pytest.raises(ProjectError, match=r"could not be written|is a folder"):
            save_project(*make(), path)
    assert list(tmp_path.iterdir()) == []


def test_saving_keeps_permissions_and_links(saved: Path, tmp_path: Path) -> None:
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(saved.stat().st_mode) == 0o666 & ~umask
    saved.chmod(0o640)
    link = tmp_path / "link.espalier"
    link.symlink_to(saved)
    save_project(*load(link), link)
    assert link.is_symlink() and stat.S_IMODE(saved.stat().st_mode) == 0o640


def test_saving_over_the_opened_file_by_a_relative_path(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(saved.parent)
    project, store = load_project(Path("p.espalier"), store := WeightStore(Path("work"))), store
    keys = keys_of(project.base, project.graph)
    assert all(store.get(k).key() == k for k in keys)
    for extra in (b"x" * 5000, b""):
        project = replace(project, extras={"padding": extra})
        save_project(project, store, Path("p.espalier"))
        assert all(store.get(k).key() == k for k in keys)


def test_undo_after_a_save_finds_what_the_file_no_longer_holds(saved: Path) -> None:
    """The mask of a pruning that was undone before saving is not in the file; redo must not read garbage."""
    project, store = load(saved)
    mask = project.graph["first"].sparsity["weight"].mask
    document = Document(project, store, saved)
    bare = Recipe(project.recipe.steps[:1])
    plain = replay(project.base, bare, Context(store)).graph
    save_project(replace(document.snapshot(), recipe=bare, graph=plain), store, saved)
    assert mask is not None and store.get(mask).key() == mask
    assert len(list(build(project.graph, store).parameters())) == 4
    assert mask not in load(saved)[1]
    store.flush("kept")
    save_project(project, store, saved)
    assert load(saved)[0] == project


# -- weights of the source


@pytest.mark.slow
def test_weights_of_the_source_are_referred_to(source: Path, tmp_path: Path) -> None:
    opened = open_any(str(source), tmp_path / "work", origin=Origin.TYPED)
    pruned = replay(opened.project.base, Recipe(STEPS[1:2]), Context(opened.store)).graph
    small, whole = tmp_path / "small.espalier", tmp_path / "whole.espalier"
    project = replace(opened.project, recipe=Recipe(STEPS[1:2]), graph=pruned)
    save_project(project, opened.store, small)
    save_project(project, opened.store, whole, everything=True)
    tensors = sum({w.key: w.elements * 4 for w in project.base.weights.values()}.values())
    assert 0.9 * tensors < whole.stat().st_size - small.stat().st_size < 1.5 * tensors
    back, store = load(small)
    assert back == project and all(store.get(k).key() == k for k in keys_of(back.base, back.graph))
    outside = {p.path for p in store.places().values()}
    assert outside == {small.resolve(), (source / "model.safetensors").resolve()}
    alone, rest = load(whole)
    assert alone == project and {p.path for p in rest.places().values()} == {whole.resolve()}


@pytest.mark.slow
def test_a_missing_source_is_told(source: Path, tmp_path: Path) -> None:
    path = project_beside(source, tmp_path)
    (source / "model.safetensors").rename(source / "other.safetensors")
    with pytest.raises(ProjectError, match=r"model\.safetensors of .* are missing or have changed") as caught:
        load(path)
    assert "source" in caught.value.hint
    shutil.rmtree(source)
    with pytest.raises(ProjectError, match="missing or have changed"):
        load(path)


@pytest.mark.slow
@pytest.mark.parametrize("change", ["byte", "length", "header", "garbage"])
def test_a_changed_source_is_told(change: str, source: Path, tmp_path: Path) -> None:
    """Also when other weights of the same sizes were saved over it."""
    path, file = project_beside(source, tmp_path), source / "model.safetensors"
    data = bytearray(file.read_bytes())
    if change == "byte":
        data[-5] ^= 1
    elif change == "length":
        data += b"\0"
    elif change == "header":
        data[:] = data.replace(b'"F32"', b'"I32"', 1)
    else:
        data[:8] = b"\xff" * 8
    file.write_bytes(data)
    with pytest.raises(ProjectError, match=r"model\.safetensors"):
        load(path)


@pytest.mark.slow
def test_a_copied_source_of_the_same_content_is_fine(source: Path, tmp_path: Path) -> None:
    path = project_beside(source, tmp_path)
    os.utime(source / "model.safetensors", (1, 1))
    project, store = load(path)
    assert all(store.get(k).key() == k for k in keys_of(project.base))


# -- versions


def manifest(path: Path, **changes: Any) -> Path:
    def change(name: str, data: bytes) -> bytes:
        return json.dumps(json.loads(data) | changes).encode() if name == "manifest.json" else data

    return rewritten(path, change)


def test_newer_files_are_refused_naming_the_version(saved: Path) -> None:
    newer = manifest(saved, format=FORMAT + 1, app="9.9.0")
    with pytest.raises(ProjectError, match=f"newer Espalier.*format {FORMAT + 1}.*reads {FORMAT}") as caught:
        load(newer)
    assert "9.9.0" in caught.value.hint


def test_older_files_go_through_each_migration(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project_module, "FORMAT", FORMAT + 2)
    seen: list[int] = []
    for version in (FORMAT, FORMAT + 1):
        MIGRATIONS.remove(version)

        @migration(version)
        def change(members: dict[str, Any], version: int = version) -> dict[str, Any]:
            seen.append(version)
            return {**members, "view.json": {"from": version}}

    try:
        assert load(saved)[0].view == {"from": FORMAT + 1}
        assert seen == [FORMAT, FORMAT + 1]
    finally:
        for version in (FORMAT, FORMAT + 1):
            MIGRATIONS.remove(version)


@pytest.mark.parametrize("version", [None, "1", 0, -1, 1.5, []])
def test_versions_that_never_were_are_refused(version: Any, saved: Path) -> None:
    with pytest.raises(ProjectError):
        load(manifest(saved, format=version))


def test_format_1_opens_for_ever(root: Path, tmp_path: Path) -> None:
    """Never make this file anew: when the format changes, this one goes through a migration."""
    golden = root / "tests" / "golden"
    facts = json.loads((golden / "project-v1.json").read_text())
    path = tmp_path / "v1.espalier"
    shutil.copyfile(golden / "project-v1.espalier", path)
    project, store = load(path)
    graph = project.graph
    assert list(graph.nodes) == facts["nodes"]
    formats = {n.id: {p: str(c.format) for p, c in n.precision.items()} for n in graph if n.precision}
    assert formats == facts["formats"]
    assert graph["conv"].sparsity["weight"].zeros == facts["zeros"]
    assert [(s.pass_name, s.seed, s.enabled) for s in project.recipe.steps] == [
        ("quantize", 0, True), ("prune", 5, True), ("remove_dropout", 0, False), ("pass_of_a_plug_in", 3, False)
    ]  # fmt: skip
    assert project.recipe.steps[3].options == Raw({"depth": [1, {"deep": None}]})
    assert project.recipe.steps[1].options == PruneOptions(0.3, "random", "local", Select("regex", ("^conv$",)))
    assert (project.source.inputs, project.source.seed, project.source.data) == (("image", "ids"), 7, "demo:digits")
    assert project.view["camera"] == [1.5, 0, 0] and "scores" in project.reports
    assert project.extras == {"studies/first.jsonl": b'{"trial": 1}\n\x00\xff'} and "notes/" in project.sealed
    image = torch.arange(2 * 9, dtype=torch.float32).reshape(2, 1, 3, 3) / 9 - 1
    with torch.no_grad():
        results = build(graph, store)(image=image, ids=torch.tensor([[0, 1, 2], [4, 4, 3]]))
    for name, want in facts["results"].items():
        torch.testing.assert_close(results[name], torch.tensor(want))
    steps, memo = project.recipe.active, Memo()
    memo.remember(steps, graph)  # as an opened project does
    assert replay(project.base, Recipe(steps), Context(store), memo).graph == graph
    # Run anew, a rule for all nodes also reaches those that took no format when the file was written.
    again = replay(project.base, Recipe(steps), Context(store)).graph
    wider = {"embed", "norm"}
    assert set(again.delta(graph).changed) == wider and not again.delta(graph).added
    assert all(not graph[i].precision and set(again[i].precision) == {"weight"} for i in wider)
    save_project(project, store, path)
    assert load(path)[0] == project


def test_projects_have_fixed_inputs(saved: Path, tmp_path: Path) -> None:
    assert open_any(str(saved), tmp_path / "w", origin=Origin.TYPED).project == load(saved)[0]
    with pytest.raises(EspalierError, match="inputs are fixed"):
        open_any(str(saved), tmp_path / "w", ("x",), origin=Origin.TYPED)


def test_format_2_keeps_the_length_of_its_texts(root: Path, tmp_path: Path) -> None:
    """Never make this file anew. Its training names no max_length, which meant 128 tokens then."""
    path = tmp_path / "v2.espalier"
    shutil.copyfile(root / "tests" / "golden" / "project-v2.espalier", path)
    project, store = load(path)
    quantise, train = project.recipe.steps
    assert isinstance(train.options, FinetuneOptions) and isinstance(quantise.options, QuantizeOptions)
    assert (train.options.max_length, train.options.data, train.options.train_limit) == (128, "demo:reviews", 16)
    assert project.source.limits is None and not project.source.classes
    save_project(project, store, path)
    assert load(path)[0] == project
    context = Context(store, reading=project.source.reading)
    found = run_step(project.graph, Step("evaluate", EvaluateOptions(data="demo:reviews", limit=9)), context)
    assert context.reading.limits is not None and context.reading.limits.vocabulary == 1712
    assert found.report.summary["n"] == 9
