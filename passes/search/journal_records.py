"""What a record of an Optuna journal must hold: one of another form is set aside before the replay."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from optuna.storages.journal._storage import JournalOperation as Op

Log = dict[str, Any]
MOST_GOALS = 100
_CREATE = re.compile(rb'\s*\{\s*"op_code"\s*:\s*([04])\s*,')
_STUDY = re.compile(rb'"study_id"\s*:\s*(\d{1,9})\b')


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 53


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_table(value: object) -> bool:
    return isinstance(value, dict)


def _is_attribute(value: object) -> bool:
    return isinstance(value, dict) and len(cast("Mapping[Any, Any]", value)) == 1


def _is_time(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_state(value: object) -> bool:
    return type(value) is int and 0 <= value <= 4


def _are_directions(value: object) -> bool:
    found = cast("list[object]", value) if isinstance(value, list) else []
    return 0 < len(found) <= MOST_GOALS and all(type(d) is int and 0 <= d <= 2 for d in found)


def _are_values(value: object) -> bool:
    return value is None or (isinstance(value, list) and all(map(_is_number, cast("list[object]", value))))


def _is_steps(value: object) -> bool:
    table = cast("Mapping[str, object]", value) if isinstance(value, dict) else {"": None}
    return all(k.isdecimal() and len(k) < 16 and _is_number(v) for k, v in table.items())


Check = Callable[[object], bool]
_HEAD: dict[str, Check] = {"worker_id": _is_text}
_NEEDED: dict[int, dict[str, Check]] = {
    Op.CREATE_STUDY: {"study_name": _is_text, "directions": _are_directions},
    Op.DELETE_STUDY: {"study_id": _is_count},
    Op.SET_STUDY_USER_ATTR: {"study_id": _is_count, "user_attr": _is_attribute},
    Op.SET_STUDY_SYSTEM_ATTR: {"study_id": _is_count, "system_attr": _is_attribute},
    Op.CREATE_TRIAL: {"study_id": _is_count, "datetime_start": _is_time},
    Op.SET_TRIAL_PARAM: {"trial_id": _is_count, "param_name": _is_text, "param_value_internal": _is_number,
                         "distribution": _is_text},
    Op.SET_TRIAL_STATE_VALUES: {"trial_id": _is_count, "state": _is_state, "values": _are_values},
    Op.SET_TRIAL_INTERMEDIATE_VALUE: {"trial_id": _is_count, "step": _is_count, "intermediate_value": _is_number},
    Op.SET_TRIAL_USER_ATTR: {"trial_id": _is_count, "user_attr": _is_attribute},
    Op.SET_TRIAL_SYSTEM_ATTR: {"trial_id": _is_count, "system_attr": _is_attribute},
    Op.DISCARD_TRIALS: {},
}  # fmt: skip
_ALLOWED: dict[str, Check] = {
    "state": _is_state, "params": _is_table, "distributions": _is_table, "user_attrs": _is_table,
    "system_attrs": _is_table, "value": lambda v: v is None or _is_number(v), "values": _are_values,
    "intermediate_values": _is_steps, "datetime_complete": _is_time,
}  # fmt: skip


def is_sound(log: Log) -> bool:
    """Whether a record has the form that its operation needs."""
    op = log.get("op_code")
    needed = _NEEDED.get(op) if type(op) is int else None
    if needed is None or not all(key in log and fits(log[key]) for key, fits in (_HEAD | needed).items()):
        return False
    return all(fits(log[key]) for key, fits in _ALLOWED.items() if key in log)


def fits_goals(values: object, goals: int) -> bool:
    """Whether a finished trial says as many figures as its study has goals, none of them NaN."""
    found = cast("list[float]", values) if isinstance(values, list) else []
    return len(found) == goals and not any(math.isnan(v) for v in found)


def damaged_creation(line: bytes) -> Log | None:
    """What a damaged line made, as studies and trials are numbered by their making; None where it made nothing."""
    found = _CREATE.match(line) if line.rstrip().endswith(b"}") else None
    if found is None:
        return None
    study = _STUDY.search(line)
    return {"op_code": int(found[1]), "damaged": True, "study_id": int(study[1]) if study else -1}
