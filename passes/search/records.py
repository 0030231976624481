"""Trials in an Optuna study and back: what a study says of itself, and each trial as a plain value."""

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

ABOUT = "espalier"  # the study's own attribute: what it is a search of
CONSTRAINTS = "constraints"  # Optuna's own attribute of a trial: by how much each is missed
VERSION = 1
STATES: dict[str, State] = {"WAITING": "waiting", "RUNNING": "running", "COMPLETE": "complete", "PRUNED": "pruned",
                            "FAIL": "failed"}  # fmt: skip


def about(spec: SearchSpec, recipe: Recipe, space: Space, model: str) -> dict[str, Any]:
    """What a study keeps of its search: enough to go on anywhere."""
    return {"version": VERSION, "model": model, "spec": encode(spec), "recipe": recipe_to_json(recipe),
            "space": encode(space)}  # fmt: skip


def search_of(study: Study, moved: Mapping[str, str] | None = None) -> tuple[SearchSpec, Recipe, Space]:
    """The search that a study holds, with paths as they are here (`moved`: path in the study → path); raises
    StorageError.
    """
    held = study.user_attrs.get(ABOUT)
    if not isinstance(held, Mapping) or cast("Any", held).get("version") != VERSION:
        raise StorageError(f"The study {study.study_name!r} was not made by this version of Espalier.",
                           "Choose another study, or use the version that made it.")  # fmt: skip
    what = f"What the study {study.study_name!r} varies"
    with reading(what, StorageError, "cannot be read", "Load the plug-ins that it was made with: --plugin FILE.py."):
        held = cast("Any", relocated(held, moved) if moved else held)
        return decode(SearchSpec, held["spec"]), recipe_from_json(held["recipe"]), decode(Space, held["space"])


def relocated(plain: Any, moved: Mapping[str, str]) -> Any:
    """JSON with paths as they are here."""
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
    """A trial as a plain value. `coded`: choices that stand in the storage as numbers of their values."""
    try:
        return _trial_of(frozen, coded or {})
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError):  # another program wrote it, or nobody
        return Trial(frozen.number, "failed", error="What the storage says of this trial cannot be read.")


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
        dict(attrs.get("bits", {})),
    )  # fmt: skip


def _text(attrs: Mapping[str, Any], key: str) -> str:
    value = attrs.get(key, "")
    if not isinstance(value, str):
        raise TypeError(key)
    return value


def _figures(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Figures by name; some are none, or a word."""
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
    """Choice → the values whose numbers the storage holds."""
    try:
        return {k: tuple(v) for k, v in study.user_attrs.get("coded", {}).items()}
    except (TypeError, AttributeError) as error:
        raise StorageError(f"The choices of the study {study.study_name!r} cannot be read.",
                           "Choose another study, or an older copy of the storage.") from error  # fmt: skip


def trials_of(study: Study) -> tuple[Trial, ...]:
    """All trials of a study, in order."""
    coded = coded_values(study)
    return tuple(trial_of(t, coded) for t in _frozen(study))


def _frozen(study: Study) -> Iterable[FrozenTrial]:
    return (t for t in study.get_trials(deepcopy=False) if not is_spare(t))


def constrain(study: Study, number: int, violated: Mapping[str, float]) -> None:
    """Note by how much each constraint is missed, in the form that Optuna's dashboard reads; their names beside it."""
    if violated:
        storage = study._storage  # pyright: ignore[reportPrivateUsage]
        trial = storage.get_trial_id_from_study_id_trial_number(study._study_id, number)  # pyright: ignore[reportPrivateUsage]
        storage.set_trial_system_attr(trial, CONSTRAINTS, [*violated.values()])
    attribute(study, number, violation=dict(violated))


def attribute(study: Study, number: int, **attrs: Any) -> None:
    """Note something at a trial that this process did not ask for, or that a sampler is about to fill."""
    storage = study._storage  # pyright: ignore[reportPrivateUsage]
    trial = storage.get_trial_id_from_study_id_trial_number(study._study_id, number)  # pyright: ignore[reportPrivateUsage]
    for key, value in attrs.items():
        storage.set_trial_user_attr(trial, key, value)
