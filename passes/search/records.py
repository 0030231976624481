"""Converts between Optuna's studies and plain values: the search of a study, and its trials."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from espalier.model.borders import reading
from espalier.model.document.codec import decode, encode
from espalier.model.document.project import recipe_from_json, recipe_to_json
from espalier.model.document.recipe import Recipe
from espalier.model.errors import StorageError
from espalier.passes.search.fleet.claim import is_spare
from espalier.passes.search.space import Space
from espalier.passes.search.spec import SearchSpec
from espalier.passes.search.trial import State, Trial, violation_of

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial

ABOUT = "espalier"  # attribute of a study: its search
CONSTRAINTS = "constraints"  # Optuna's attribute of a trial: the excess of each constraint
VERSION = 1
STATES: dict[str, State] = {"WAITING": "waiting", "RUNNING": "running", "COMPLETE": "complete", "PRUNED": "pruned",
                            "FAIL": "failed"}  # fmt: skip


def about(spec: SearchSpec, recipe: Recipe, space: Space, model: str) -> dict[str, Any]:
    """The attribute that describes a search, complete enough to resume it on another machine."""
    return {"version": VERSION, "model": model, "spec": encode(spec), "recipe": recipe_to_json(recipe),
            "space": encode(space)}  # fmt: skip


def search_of(study: Study, moved: Mapping[str, str] | None = None) -> tuple[SearchSpec, Recipe, Space]:
    """The search of a study, with local paths (`moved`: path in the study → local path); raises StorageError."""
    stored = study.user_attrs.get(ABOUT)
    if not isinstance(stored, Mapping) or cast("Any", stored).get("version") != VERSION:
        raise StorageError(f"The study {study.study_name!r} is from another version of Espalier.",
                           "Choose another study, or use the version that created it.")  # fmt: skip
    what = f"What the study {study.study_name!r} varies"
    with reading(what, StorageError, "cannot be read", "Load the plug-ins that it uses: --plugin FILE.py."):
        table = cast("Any", relocated(stored, moved) if moved else stored)
        return decode(SearchSpec, table["spec"]), recipe_from_json(table["recipe"]), decode(Space, table["space"])


def relocated(plain: Any, moved: Mapping[str, str]) -> Any:
    """The JSON with each text that is a key of `moved` replaced."""
    match plain:
        case str():
            return moved.get(plain, plain)
        case Mapping():
            return {k: relocated(v, moved) for k, v in cast("Mapping[str, Any]", plain).items()}
        case list():
            return [relocated(v, moved) for v in cast("list[Any]", plain)]
        case _:
            return plain


def trial_of(frozen: FrozenTrial, coded: Mapping[str, tuple[Any, ...]] | None = None) -> Trial:
    """A trial as a plain value; failed if it cannot be read. `coded`: choices stored as indices of these values."""
    try:
        return _trial_of(frozen, coded or {})
    except (
        TypeError,
        ValueError,
        LookupError,
        AttributeError,
        OverflowError,
    ):  # written by another program, or damaged
        return Trial(frozen.number, "failed", error="The stored record of this trial cannot be read.")


def _trial_of(frozen: FrozenTrial, coded: Mapping[str, tuple[Any, ...]]) -> Trial:
    attrs = frozen.user_attrs
    params = {k: coded[k][int(v)] if k in coded else v for k, v in frozen.params.items()}
    started = frozen.datetime_start.timestamp() if frozen.datetime_start else 0.0
    state = STATES[frozen.state.name]
    steps = tuple((k, v) for k, v in sorted(frozen.intermediate_values.items()) if math.isfinite(v))
    return Trial(
        frozen.number, state, params,
        tuple(frozen.values or ()) if state == "complete" else (),
        _figures(attrs), steps, violation_of(frozen), started, _seconds(frozen),
        _text(attrs, "worker"), _text(attrs, "origin"), bool(attrs.get("reused")), _text(attrs, "error"),
        bool(attrs.get("lost")), _text(attrs, "begins"), _text(attrs, "kept"), _parent(attrs),
        dict(attrs.get("noise", {})), tuple((int(k), float(v)) for k, v in attrs.get("losses", ())),
        dict(attrs.get("bits", {})), _text(attrs, "note"),
    )  # fmt: skip


def _text(attrs: Mapping[str, Any], key: str) -> str:
    value = attrs.get(key, "")
    if not isinstance(value, str):
        raise TypeError(key)
    return value


def _figures(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Figures by name; a value may be None or a text."""
    table = dict(attrs.get("figures", {}))
    if not all(isinstance(v, int | float | str | None) for v in table.values()):
        raise TypeError("figures")
    return table


def _parent(attrs: Mapping[str, Any]) -> int | None:
    value = attrs.get("parent")
    if value is not None and type(value) is not int:
        raise TypeError("parent")
    return value


def _seconds(frozen: FrozenTrial) -> float | None:
    if "seconds" in frozen.user_attrs:
        return float(frozen.user_attrs["seconds"])
    if frozen.datetime_start and frozen.datetime_complete:
        return (frozen.datetime_complete - frozen.datetime_start).total_seconds()
    return None


def coded_values(study: Study) -> dict[str, tuple[Any, ...]]:
    """Choice → its values, for choices stored as indices; raises StorageError."""
    try:
        return {k: tuple(v) for k, v in study.user_attrs.get("coded", {}).items()}
    except (TypeError, AttributeError) as error:
        raise StorageError(f"The choices of the study {study.study_name!r} cannot be read.",
                           "Choose another study, or an older copy of the storage.") from error  # fmt: skip


def trials_of(study: Study) -> tuple[Trial, ...]:
    """All trials of a study, in order of their numbers."""
    coded = coded_values(study)
    return tuple(trial_of(t, coded) for t in _frozen(study))


def _frozen(study: Study) -> Iterable[FrozenTrial]:
    return (t for t in study.get_trials(deepcopy=False) if not is_spare(t))


def constrain(study: Study, number: int, violated: Mapping[str, float]) -> None:
    """Store the excess of each constraint, in Optuna's form for its dashboard and with names in `violation`."""
    if violated:
        storage = study._storage  # pyright: ignore[reportPrivateUsage]
        trial = storage.get_trial_id_from_study_id_trial_number(study._study_id, number)  # pyright: ignore[reportPrivateUsage]
        storage.set_trial_system_attr(trial, CONSTRAINTS, [*violated.values()])
    attribute(study, number, violation=dict(violated))


def attribute(study: Study, number: int, **attrs: Any) -> None:
    """Set attributes of a trial by its number, also of one that another process runs."""
    storage = study._storage  # pyright: ignore[reportPrivateUsage]
    trial = storage.get_trial_id_from_study_id_trial_number(study._study_id, number)  # pyright: ignore[reportPrivateUsage]
    for key, value in attrs.items():
        storage.set_trial_user_attr(trial, key, value)
