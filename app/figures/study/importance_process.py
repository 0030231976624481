"""Importance of choices for each goal by Optuna's evaluators, run as a separate process.

Reads from standard input a line of JSON (choices with their ranges, goals, method, rows) and the columns as float64.
"""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from typing import Any, BinaryIO

import numpy as np

from espalier.model.orphans import end_with_parent

MIN_TRIALS = 10  # complete trials


def read(source: BinaryIO) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """The request and the columns by name; missing values are NaN."""
    about = json.loads(source.readline())
    names = [*about["choices"], *(f"goal {g}" for g in about["goals"])]
    columns = np.frombuffer(source.read(), np.float64).reshape(len(names), about["rows"])
    return about, dict(zip(names, columns.tolist(), strict=True))


def importances(about: dict[str, Any], columns: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """Goal → choice → its importance, 0 to 1. Goals are minimised."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    spaces = {name: _distribution(optuna, choice) for name, choice in about["choices"].items()}
    rows = [{n: _plain(about["choices"][n], columns[n][i]) for n in spaces if columns[n][i] == columns[n][i]}
            for i in range(about["rows"])]  # fmt: skip
    shares: dict[str, dict[str, float]] = {}
    for goal in about["goals"]:
        study = optuna.create_study(direction="minimize")
        study.add_trials(
            [optuna.create_trial(value=v, params=p, distributions={k: spaces[k] for k in p})
             for p, v in zip(rows, columns[f"goal {goal}"], strict=True) if math.isfinite(v)]
        )  # fmt: skip
        by_choice = optuna.importance.get_param_importances(study, evaluator=_evaluator(optuna, about["method"]))
        shares[goal] = {k: v for k, v in by_choice.items() if v == v}
    return shares


def _evaluator(optuna: Any, method: str) -> Any:
    evaluators = optuna.importance
    if method == "ped":
        return evaluators.PedAnovaImportanceEvaluator()
    return evaluators.FanovaImportanceEvaluator(seed=0)


def _plain(choice: dict[str, Any], value: float) -> float:
    return round(value) if "values" in choice or choice["whole"] else value


def _distribution(optuna: Any, choice: dict[str, Any]) -> Any:
    """The Optuna distribution of a choice."""
    if "values" in choice:
        return optuna.distributions.CategoricalDistribution(choice["values"])
    if choice["whole"]:
        low, high = math.floor(choice["low"]), math.ceil(choice["high"])
        return optuna.distributions.IntDistribution(low, high, log=choice["log"])
    return optuna.distributions.FloatDistribution(choice["low"], choice["high"], log=choice["log"])


if __name__ == "__main__":
    end_with_parent()
    request = read(sys.stdin.buffer)
    if hasattr(os, "nice") and request[0]["method"] != "ped":  # PED-ANOVA takes two seconds, fANOVA a minute
        os.nice(10)  # the search and the window have priority
    json.dump(importances(*request), sys.stdout)
