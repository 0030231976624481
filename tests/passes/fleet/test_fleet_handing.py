"""A model, its data and its tokenizer on their way to a worker that shares nothing with the search but the storage."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import optuna
import pytest

from espalier.model.data.base import LoadOptions, TaskData
from espalier.model.data.captions import CONTRASTIVE, load_captions
from espalier.model.document.codec import encode
from espalier.model.document.graph_json import fingerprint
from espalier.model.document.project import save_project
from espalier.model.document.recipe import Recipe
from espalier.model.errors import StorageError
from espalier.model.opening import Opened, open_any
from espalier.passes.base import Context
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.search.fleet import model_transfer
from espalier.passes.search.fleet.model_transfer import hand_over, local_paths, receive, shared_model
from espalier.passes.search.fleet.worker import JoinOptions, WorkerState, join_plan, work
from espalier.passes.search.records import relocated
from espalier.passes.search.search import Search
from espalier.passes.search.spec import Goal, SearchSpec, Vary
from espalier.passes.search.storage import load_study, open_storage, open_study
from espalier.passes.search.study import Plan, begin
from espalier.passes.tasks.base import TASKS
from tests.caption_models import LENGTH, pairs, write_model, write_pairs


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """A small model, opened once."""
    return open_any("demo:digits-mlp", tmp_path_factory.mktemp("model"))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("ESPALIER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "projects"


def study_in(folder: Path) -> tuple[optuna.Study, str]:
    """A study, and its storage."""
    url = f"journal:{folder}/a.journal"
    return open_study(open_storage(url), "a", ("maximize",), "x"), url


def received(study: optuna.Study, url: str, folder: Path, given: str | None = None) -> Opened:
    """What a worker opens."""
    folder.mkdir(exist_ok=True)
    return receive(study, url, folder, given).opened


def test_a_model_travels_once(model: Opened, tmp_path: Path, cache: Path) -> None:
    study, url = study_in(tmp_path)
    first = hand_over(study, url, model.project, model.store)
    assert hand_over(study, url, model.project, model.store) == first == shared_model(study)
    assert len(list((tmp_path / "a.journal.files").iterdir())) == 1
    there = received(study, url, tmp_path / "w1")
    assert fingerprint(there.project.base) == fingerprint(model.project.base)
    assert there.project.source == model.project.source
    keys = {w.key for w in there.project.base.weights.values() if w.key}
    assert all((there.store.get(k).array == model.store.get(k).array).all() for k in keys)
    shutil.rmtree(tmp_path / "a.journal.files")  # the next worker of this machine has it in the cache
    received(study, url, tmp_path / "w2")
    assert [p.suffix for p in cache.iterdir() if p.suffix != ".lock"] == [".espalier"]


def test_weights_of_no_demo_are_in_it(model: Opened, tmp_path: Path) -> None:
    study, url = study_in(tmp_path)
    own = replace(model.project, source=replace(model.project.source, spec=str(tmp_path / "gone")))
    assert hand_over(study, url, own, model.store).size == 26_280
    there = received(study, url, tmp_path / "w")
    keys = {w.key for w in there.project.base.weights.values() if w.key}
    assert all(there.store.get(k).array.nbytes for k in keys)


def test_the_projects_own_path_is_taken_while_it_is_the_same(model: Opened, tmp_path: Path, cache: Path) -> None:
    study, url = study_in(tmp_path)
    path = tmp_path / "p.espalier"
    save_project(model.project, model.store, path)
    hand_over(study, url, model.project, model.store, str(path))
    received(study, url, tmp_path / "w")
    assert not cache.exists()
    other = open_any("demo:digits", tmp_path)
    save_project(other.project, other.store, path)  # another by now
    assert fingerprint(received(study, url, tmp_path / "v").project.base) == fingerprint(model.project.base)
    assert cache.exists()
    with pytest.raises(StorageError, match="is not the model of"):
        received(study, url, tmp_path / "u", str(path))


def test_what_cannot_travel_says_so(model: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, url = study_in(tmp_path)
    with pytest.raises(StorageError, match="does not name its model"):
        received(study, url, tmp_path / "w")
    monkeypatch.setattr(model_transfer, "LIMIT", 1000)
    assert not hand_over(study, url, model.project, model.store).digest
    with pytest.raises(StorageError, match="too large"):
        received(study, url, tmp_path / "w")
    assert received(study, url, tmp_path / "w", "demo:digits-mlp").project.source.spec == "demo:digits-mlp"


def test_a_file_that_was_altered_is_refused(model: Opened, tmp_path: Path) -> None:
    study, url = study_in(tmp_path)
    hand_over(study, url, model.project, model.store)
    (file,) = (tmp_path / "a.journal.files").iterdir()
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(StorageError, match="corrupted"):
        received(study, url, tmp_path / "w")


def test_data_and_tokenizer_travel_along(model: Opened, tmp_path: Path) -> None:
    study, url = study_in(tmp_path)
    data, split, words = tmp_path / "rows.csv", tmp_path / "split", tmp_path / "words"
    data.write_text("text,label\ngood,1\n")
    for folder, name in ((split, "train.csv"), (split, "test.csv"), (words, "tokenizer.json"), (words, "other.bin")):
        folder.mkdir(exist_ok=True)
        (folder / name).write_text("text,label\nbad,0\n")
    plain = {"score": {"data": str(data)}, "steps": [{"options": {"data": str(split), "select": "demo:digits"}}]}
    assert local_paths([plain]) == {str(data), str(split)}
    project = replace(model.project, source=replace(model.project.source, tokenizer=str(words)))
    hand_over(study, url, project, model.store, plain=[plain], may=lambda _: True)
    for path in (data, split, words):
        shutil.move(path, tmp_path / f"gone-{path.name}")
    (tmp_path / "w").mkdir()
    found = receive(study, url, tmp_path / "w")
    there = relocated(plain, found.moved)
    assert Path(there["score"]["data"]).read_text() == "text,label\ngood,1\n"
    assert sorted(p.name for p in Path(there["steps"][0]["options"]["data"]).iterdir()) == ["test.csv", "train.csv"]
    tokenizer = Path(found.opened.project.source.tokenizer or "")
    assert [p.name for p in tokenizer.iterdir()] == ["tokenizer.json"]
    assert there["steps"][0]["options"]["select"] == "demo:digits"


@pytest.mark.parametrize("form", ["folder", "table", "splits"])
def test_images_that_a_table_names_travel_along(form: str, model: Opened, tmp_path: Path) -> None:
    """With the processor of the model's folder; other files stay."""
    pytest.importorskip("PIL")
    study, url = study_in(tmp_path)
    folder, words = tmp_path / "pairs", tmp_path / "words"
    write_model(words)
    for at, name in enumerate(("train", "test") if form == "splits" else ("",)):
        write_pairs(folder / name, pairs(6, at))
        (folder / name / "other.bin").write_bytes(b"x")
    data = folder / "metadata.jsonl" if form == "table" else folder

    def loaded(spec: str, tokenizer: str) -> TaskData:
        options = LoadOptions(tokenizer=tokenizer, max_length=LENGTH, whole=True, task=CONTRASTIVE,
                              form=TASKS.get(CONTRASTIVE).form)  # fmt: skip
        return load_captions(spec, options)

    before = loaded(str(data), str(words))
    project = replace(model.project, source=replace(model.project.source, tokenizer=str(words)))
    plain = {"score": {"data": str(data)}}
    hand_over(study, url, project, model.store, plain=[plain], may=lambda _: True)
    for path in (folder, words):
        shutil.move(path, tmp_path / f"gone-{path.name}")
    (tmp_path / "w").mkdir()
    found = receive(study, url, tmp_path / "w")
    there = relocated(plain, found.moved)["score"]["data"]
    after = loaded(there, found.opened.project.source.tokenizer or "")
    assert list(after.splits) == list(before.splits) and not list(Path(found.moved[str(data)]).rglob("other.bin"))
    for name, split in before.splits.items():
        for key, array in split.inputs.items():
            assert (after.splits[name].inputs[key] == array).all(), key
        assert after.splits[name].table == split.table


def test_a_worker_needs_only_storage_and_name(model: Opened, tmp_path: Path) -> None:
    """Its data lie elsewhere, too: the study is the same all the same."""
    url, data = f"journal:{tmp_path}/a.journal", tmp_path / "digits.csv"
    names = [f"p{i}" for i in range(64)]
    rows = [",".join([*(str((i * j) % 17) for j in range(64)), str(i % 10)]) for i in range(40)]
    data.write_text("\n".join([",".join([*names, "label"]), *rows]) + "\n")
    space = (Vary(values="integer(width=3|4|6|8)"),)
    spec = SearchSpec("a", space, (Goal("weight_bits"),), trials=3, sampler="random",
                      score=EvaluateOptions(data=str(data)))  # fmt: skip
    project = model.project
    context = Context(model.store, base=project.base)
    running = begin(Plan(Search(spec, Recipe(), project.base, project.source), context, url))
    hand_over(running.study, url, project, model.store, plain=[encode(spec)], may=lambda _: True)
    data.unlink()
    part = WorkerState(JoinOptions(url, "a", trials=2))
    (tmp_path / "w").mkdir()
    plan = join_plan(part.options, tmp_path / "w", lambda *_: None, lambda _: None, part)
    plan.salt = 1  # else the process's number draws the trials, and a duplicate is one more
    assert Path(plan.search.spec.score.data).is_file() and plan.search.spec.score.data != str(data)
    seen = list(work(plan, part, lambda _: None))
    assert [t.state for t in seen] == ["running", "complete"] * 2 and len(part.ended) == 2
    part = WorkerState(JoinOptions(url, "a"))
    plan = join_plan(part.options, tmp_path / "w", lambda *_: None, lambda _: None, part)
    plan.salt = 2
    assert sum(t.state == "complete" for t in work(plan, part, lambda _: None)) == 1  # of the three
    assert part.why and len(load_study(open_storage(url), "a").trials) == 3
