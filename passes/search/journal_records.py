"""Parses and validates records of an Optuna journal; invalid ones are not replayed."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from optuna.storages.journal._storage import JournalOperation as Op

Log = dict[str, Any]
BEGIN = b'{"op_code":'
DAMAGED = (ValueError, LookupError, TypeError, RecursionError, OverflowError)  # errors of an invalid record
MAX_GOALS = 100
_CREATE = re.compile(rb'\s*\{\s*"op_code"\s*:\s*([04])\s*,')
_STUDY = re.compile(rb'"study_id"\s*:\s*(\d{1,9})\b')


def parse_line(line: bytes) -> Log | None:
    """The operation on a line; of two on one line, the second; None if there is none."""
    for text in (line, line[line.rfind(BEGIN) :] if BEGIN in line else b""):
        with contextlib.suppress(*DAMAGED):
            log = json.loads(text)
            if isinstance(log, dict) and "op_code" in log:
                return log
    return None


def read_record(line: bytes) -> Log | None:
    """The operation on a line; None for an empty one. A damaged line that created a study or a trial still gives that
    operation, because these are numbered in order of creation.
    """
    if not line.strip(b"\0 \r\n\t"):
        return None
    if log := parse_line(line):
        return log
    create, study = _CREATE.match(line), _STUDY.search(line)
    code = int(create[1]) if create and line.rstrip().endswith(b"}") else None
    return {"op_code": code, "study_id": int(study[1]) if study else -1}


def _count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 53


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: object) -> bool:
    return isinstance(value, str)


def _table(value: object) -> bool:
    return isinstance(value, dict)


def _attribute(value: object) -> bool:
    return isinstance(value, dict) and len(cast("Mapping[Any, Any]", value)) == 1


def _code(highest: int) -> Callable[[object], bool]:
    return lambda value: type(value) is int and 0 <= value <= highest


def _list(value: object, of: Callable[[object], bool]) -> bool:
    return isinstance(value, list) and all(map(of, cast("list[object]", value)))


def _steps(value: object) -> bool:
    table = cast("Mapping[str, object]", value) if isinstance(value, dict) else {"": None}
    return all(k.isdecimal() and len(k) < 16 and _number(v) for k, v in table.items())


_KEYS: dict[str, Callable[[Any], bool]] = {
    "worker_id": _text, "study_id": _count, "trial_id": _count, "step": _count, "study_name": _text,
    "directions": lambda v: _list(v, _code(2)) and 0 < len(v) <= MAX_GOALS, "param_name": _text,
    "param_value_internal": _number, "distribution": _text, "intermediate_value": _number, "state": _code(4),
    "value": lambda v: v is None or _number(v), "values": lambda v: v is None or _list(v, _number),
    "user_attr": _attribute, "system_attr": _attribute, "user_attrs": _table, "system_attrs": _table,
    "params": _table, "distributions": _table, "intermediate_values": _steps,
    "datetime_start": lambda v: v is None or _text(v), "datetime_complete": lambda v: v is None or _text(v),
}  # fmt: skip
_NEEDED: dict[int, str] = {
    Op.CREATE_STUDY: "study_name directions", Op.DELETE_STUDY: "study_id",
    Op.SET_STUDY_USER_ATTR: "study_id user_attr", Op.SET_STUDY_SYSTEM_ATTR: "study_id system_attr",
    Op.CREATE_TRIAL: "study_id datetime_start",
    Op.SET_TRIAL_PARAM: "trial_id param_name param_value_internal distribution",
    Op.SET_TRIAL_STATE_VALUES: "trial_id state values",
    Op.SET_TRIAL_INTERMEDIATE_VALUE: "trial_id step intermediate_value",
    Op.SET_TRIAL_USER_ATTR: "trial_id user_attr", Op.SET_TRIAL_SYSTEM_ATTR: "trial_id system_attr",
    Op.DISCARD_TRIALS: "",
}  # fmt: skip


def is_valid(log: Log) -> bool:
    """Whether a record has the keys and types that its operation needs."""
    op = log["op_code"]
    if type(op) is not int or op not in _NEEDED or any(k not in log for k in ("worker_id", *_NEEDED[op].split())):
        return False
    return all(fits(log[key]) for key, fits in _KEYS.items() if key in log)


def fits_goals(values: object, goals: int) -> bool:
    """Whether a complete trial has one value per goal, none of them NaN."""
    numbers = cast("list[float]", values) if isinstance(values, list) else []
    return len(numbers) == goals and not any(math.isnan(v) for v in numbers)
