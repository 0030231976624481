"""A journal with wrong records: the others are read, and nothing of it runs."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest

from espalier.model.data.base import LoadOptions
from espalier.model.data.tables import read_rows
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import DataError
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.search.fleet.claim import claimed
from espalier.passes.search.records import trials_of
from espalier.passes.search.storage import damage_of, load_study, open_storage
from espalier.passes.sweep import journal as sweeps
from espalier.passes.sweep.journal import Journal
from espalier.passes.sweep.results import Outcome
from espalier.passes.sweep.sweep import Axis, Sweep

WRONG: tuple[object, ...] = (None, "x", [], {}, -1, 10**20, 1.5, True, [[]], {"a": {}}, "2026-99-99")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two studies, three and two trials."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    file = tmp_path / "s.journal"
    storage = open_storage(str(file))
    for name, count in (("first", 3), ("second", 2)):
        study = optuna.create_study(storage=storage, study_name=name)
        for number in range(count):
            trial = study.ask()
            trial.suggest_categorical("format", ["mxint", "float"])
            trial.suggest_float("share", 0, 1)
            trial.set_user_attr("figures", {"loss": 0.5})
            trial.report(0.5, 1)
            study.tell(trial, float(number))
    return file


def held(file: Path) -> dict[str, list[Any]]:
    """The trials by study."""
    storage = open_storage(str(file))
    names = [s.study_name for s in storage.get_all_studies()]
    return {n: [(t.number, t.params, t.values) for t in load_study(storage, n).trials] for n in names}


def test_garbage_between_records_loses_nothing(path: Path) -> None:
    before, lines = held(path), path.read_bytes().split(b"\n")
    for garbage in (b"garbage", b"{", b"\xff\xfe\x00", b"[" * 100_000, b'{"op_code": 99}', b'{"op_code": {}}', b"null",
                    b'{"op_code": 7, "trial_id": 0}', b'{"a": ' + b"9" * 100_000 + b"}"):  # fmt: skip
        for place in (1, len(lines) // 2, len(lines) - 1):
            path.write_bytes(b"\n".join([*lines[:place], garbage, *lines[place:]]))
            assert held(path) == before
            assert damage_of(open_storage(str(path))).startswith(f"Record {place + 1} of s.journal is damaged")
    assert not damage_of(open_storage(str(path.with_name("new.journal"))))


def test_a_last_line_that_is_cut_off(path: Path) -> None:
    data = path.read_bytes()
    before = held(path)
    for cut in range(1, len(data.splitlines()[-1]) + 1, 7):
        path.write_bytes(data[:-cut])
        found = held(path)
        assert found["first"] == before["first"] and found["second"][0] == before["second"][0]
        study = load_study(open_storage(str(path)), "second")
        study.add_trial(optuna.create_trial(value=1.0))
        assert len(held(path)["second"]) == 3


@pytest.mark.slow
def test_a_record_of_wrong_types_harms_its_own_trial_alone(path: Path) -> None:
    before, lines = held(path), path.read_text().splitlines()
    damaged = 0
    for number, line in enumerate(lines):
        record = json.loads(line)
        for key in record:
            if key == "op_code" and record["op_code"] in (0, 4):
                continue  # what it made cannot be told any more
            for wrong in WRONG:
                path.write_text(
                    "\n".join([*lines[:number], json.dumps({**record, key: wrong}), *lines[number + 1 :], ""])
                )
                try:
                    found = held(path)
                except Exception as error:
                    raise AssertionError(f"{key} = {wrong!r} in {line}") from error
                same = [t[1:] in [f[1:] for f in found.get(n, [])] for n in before for t in before[n]]
                if record["op_code"] == 0:
                    assert len(found) >= 1
                    continue
                assert sum(same) >= 4 and sorted(found) == ["first", "second"], (key, wrong, line)
                for name in found:
                    trials_of(load_study(open_storage(str(path)), name))
                damaged += 1
    assert damaged > 500


@pytest.mark.parametrize("seed", range(4))
def test_flipped_bytes_keep_the_journal_readable(seed: int, path: Path) -> None:
    chance, data = random.Random(seed), path.read_bytes()
    for _ in range(100):
        flipped = bytearray(data)
        for _ in range(chance.choice((1, 1, 3, 10))):
            flipped[chance.randrange(len(flipped))] = chance.randrange(256)
        path.write_bytes(flipped)
        storage = open_storage(str(path))
        for summary in storage.get_all_studies():
            trials_of(load_study(storage, summary.study_name))


def test_a_record_of_no_trial_and_of_another_process(path: Path) -> None:
    before = held(path)
    said: list[dict[str, Any]] = [
        {"op_code": 5, "worker_id": "w", "trial_id": 99, "param_name": "a", "param_value_internal": 0,
         "distribution": "{}"},
        {"op_code": 6, "worker_id": "w", "trial_id": 99, "state": 1, "values": [1], "datetime_complete": None},
        {"op_code": 8, "worker_id": "w", "trial_id": 10**9, "user_attr": {"a": 1}},
        {"op_code": 4, "worker_id": "w", "study_id": 77, "datetime_start": None},
        {"op_code": 1, "worker_id": "w", "study_id": 77},
    ]  # fmt: skip
    with path.open("a") as file:
        file.writelines(json.dumps(r) + "\n" for r in said)
    assert held(path) == before


@pytest.mark.parametrize("attrs", [{"figures": 3}, {"figures": {"loss": [1]}}, {"worker": 3}, {"seconds": "x"},
                                   {"losses": [1]}, {"parent": {}}, {"begins": 1}, {"violation": "abc"}])  # fmt: skip
def test_what_a_trial_says_of_itself_may_be_anything(attrs: dict[str, Any], path: Path) -> None:
    study = load_study(open_storage(str(path)), "first")
    study.add_trial(optuna.create_trial(value=1.0, user_attrs=attrs))
    *others, last = trials_of(study)
    assert last.state == "failed" and "cannot be read" in last.error
    assert all(t.state == "complete" for t in others) and len(others) == 3


# -- sweeps


@pytest.mark.parametrize("spoil", [
    lambda lines: [lines[0], b"garbage", *lines[1:]], lambda lines: [lines[0], b"\xff\xfe", *lines[1:]],
    lambda lines: [lines[0], b"[" * 100_000, *lines[1:]], lambda lines: [*lines, lines[-1][:-9]],
    lambda lines: [*lines, lines[-1].replace(b'"variant":0', b'"variant":99')],
    lambda lines: [*lines, lines[-1].replace(b'"x":', b'"x":7')],
])  # fmt: skip
def test_a_sweep_keeps_its_other_points(spoil: Callable[[list[bytes]], list[bytes]], tmp_path: Path) -> None:
    sweep = Sweep(Recipe((Step("prune", PruneOptions()),)), Axis(0, "sparsity", (0.25, 0.5)))
    whole = Journal(sweep, tuple(Outcome(f"k{x}", 0, x, 0, {"accuracy": 0.5}) for x in (0, 1)))
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"\n".join(spoil(sweeps.dump(whole).strip().split(b"\n"))) + b"\n")
    assert sweeps.read(path) == whole


@pytest.mark.parametrize("wrong", ["x", [], {"a": 1}, None])
def test_a_violation_that_is_no_number_fails_its_trial_alone(wrong: object) -> None:
    study = optuna.create_study()
    for told in (wrong, 0.5, -1.0, True):
        trial = study.ask()
        trial.set_user_attr("violation", {"loss <= 1": told})
        study.tell(trial, 0.0)
    found = trials_of(study)
    assert [t.state for t in found] == ["failed", "complete", "complete", "complete"]
    assert [t.feasible for t in found] == [False, False, True, False]
    pruned = study.ask()
    pruned.set_user_attr("violation", {"loss <= 1": wrong})
    study.tell(pruned, state=optuna.trial.TrialState.PRUNED)
    assert claimed(study, 6) is not None and claimed(study, 6) is None


def test_a_label_of_5000_digits_is_an_error_of_the_table(tmp_path: Path) -> None:
    file = tmp_path / "d.json"
    file.write_text(json.dumps([{"text": "a", "label": 0}, {"text": "b", "label": "9" * 5000}]))
    with pytest.raises(DataError, match=r"d\.json cannot be read"):
        read_rows(file, LoadOptions())
