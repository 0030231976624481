"""Studies of other people: what a storage says names data, never code, and no file outside its folders."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest

from espalier.app.cli import main
from espalier.model.errors import StorageError
from espalier.model.trust import NAMED, SESSION
from espalier.passes.search.fleet.model_transfer import shared_model
from espalier.passes.search.fleet.serve import serve
from espalier.passes.search.storage import load_study, open_storage
from tests.passes.fleet.fleet_cases import cluster, postgres

__all__ = ["cluster", "postgres"]

SPEC = """
study = "bits"
goals = ["accuracy"]
sampler = "random"
trials = 2
[[space]]
per = "all"
values = "integer(width=2|4|8)"
[score]
data = "demo:digits-mlp"
limit = 20
"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state and a cache of its own; nothing allowed."""
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("ESPALIER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(SESSION, raising=False)
    monkeypatch.setenv(NAMED, "")
    monkeypatch.setattr("espalier.model.trust._typed", set())


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """What foreign code writes when it runs."""
    return tmp_path / "ran"


@pytest.fixture
def code(tmp_path: Path, marker: Path) -> Path:
    """A stranger's file: a model, a plug-in and a data set in one."""
    file = tmp_path / "evil.py"
    made = "torch.nn.Sequential(torch.nn.Linear(64, 10)), {'input': torch.randn(2, 64)}"
    file.write_text(f"open({str(marker)!r}, 'w').close()\nimport torch\n\ndef make():\n    return {made}\n")
    return file


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The journal of a study with two trials."""
    folder = tmp_path_factory.mktemp("searched")
    spec, path = folder / "s.toml", folder / "s.journal"
    spec.write_text(SPEC)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ESPALIER_STATE", str(folder / "state"))
        patch.setenv("ESPALIER_CACHE", str(folder / "cache"))
        assert main(["search", "demo:digits-mlp", str(spec), "--storage", f"journal:{path}"]) == 0
    return path.read_bytes()


@pytest.fixture
def journal(searched: bytes, tmp_path: Path) -> Path:
    """The study, and its description beside it."""
    (tmp_path / "s.toml").write_text(SPEC)
    path = tmp_path / "s.journal"
    path.write_bytes(searched)
    return path


def altered(value: Any, change: Callable[[str, Any], Any], key: str = "") -> Any:
    """JSON with each value as `change` wants it."""
    if isinstance(value, dict):
        value = {k: altered(v, change, k) for k, v in value.items()}
    elif isinstance(value, list):
        value = [altered(v, change, key) for v in value]
    return change(key, value)


def rewritten(journal: Path, change: Callable[[str, Any], Any]) -> None:
    lines = [json.dumps(altered(json.loads(x), change)) for x in journal.read_text().splitlines()]
    journal.write_text("\n".join([*lines, ""]))


def attacks(code: Path) -> dict[str, Callable[[str, Any], Any]]:
    source = f"{code}:make"
    steps = [{"pass": "take_weights", "options": {"source": source}}]

    def with_steps(k: str, v: Any, steps: Any) -> Any:
        return {**v, "steps": steps} if k == "recipe" and isinstance(v, dict) else v  # a digest has that name too

    return {
        "source": lambda k, v: {**v, "source": source, "path": source, "digest": ""} if k == "project" else v,
        "path": lambda k, v: {**v, "path": str(code), "digest": ""} if k == "project" else v,
        "steps": lambda k, v: with_steps(k, v, steps),
        "data": lambda k, v: str(code) if k == "data" else v,
        "model data": lambda k, v: source if k == "data" else v,
        "plug-in": lambda k, v: {**v, "plugins": [str(code)]} if k in ("espalier", "spec") else v,
        "pass": lambda k, v: with_steps(k, v, [{"pass": str(code), "options": {}}]),
        "kept": lambda k, v: {**v, "kept": source, "begins": source} if k == "user_attr" and "figures" in v else v,
        "everywhere": lambda k, v: source if isinstance(v, str) and v and k not in ("study_name", "worker_id") else v,
    }


def copied(study: optuna.Study, url: str) -> None:
    """The study in a database, in the place of the last one."""
    storage = open_storage(url)
    for other in optuna.get_all_study_names(storage):
        optuna.delete_study(study_name=other, storage=storage)
    optuna.copy_study(from_study_name="bits", from_storage=study._storage, to_storage=storage)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "name"),
    [
        *itertools.product(["journal", "grpc"], attacks(Path())),
        *itertools.product(["sqlite", "postgresql"], ["source", "plug-in", "everywhere"]),
    ],
)
def test_a_worker_runs_nothing_that_a_study_names(
    name: str,
    how: str,
    journal: Path,
    code: Path,
    marker: Path,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    rewritten(journal, attacks(code)[name])
    study = load_study(open_storage(str(journal)), "bits")
    study.add_trial(optuna.create_trial(state=optuna.trial.TrialState.WAITING))
    capsys.readouterr()
    server, url = None, f"journal:{journal}"
    if how == "grpc":
        server, port = serve(url, "127.0.0.1", 0)
        url = f"grpc://127.0.0.1:{port}"
    elif how != "journal":
        url = request.getfixturevalue("postgres") if how == "postgresql" else f"sqlite:///{journal}.db"
        copied(study, url)
    try:
        code_of_exit = main(["worker", "--storage", url, "--study", "bits", "--trials", "1"])
        main(["search", "demo:digits-mlp", str(journal.with_name("s.toml")), "--storage", url, "--resume"])
    finally:
        if server is not None:
            server.stop(None).wait()
    assert not marker.exists()
    assert code_of_exit in (0, 2), capsys.readouterr().err


@pytest.mark.parametrize("digest", ["../../../../tmp/x", "/etc/passwd", "", "a" * 63, "A" * 64, "." * 64, "a\n" * 32])
def test_a_digest_is_no_path(digest: str, tmp_path: Path) -> None:
    study = optuna.create_study(storage=open_storage(str(tmp_path / "a.journal")), study_name="a")
    study.set_user_attr("project", {"model": "m", "source": "s", "beside": {"/data.csv": digest}})
    with pytest.raises(StorageError, match="invalid digest"):
        shared_model(study)
    study.set_user_attr("project", {"model": "m", "source": "s", "digest": digest or "x"})
    with pytest.raises(StorageError, match="invalid digest"):
        shared_model(study)
