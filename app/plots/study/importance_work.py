"""How much each choice decides of each goal, by Optuna's evaluators: run as a process of its own, without a window.

Reads one JSON object from standard input: `choices` (name → kind and ends), `trials` (params, goals); writes another.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

FEWEST = 10  # complete trials


def importances(asked: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Goal → choice → its share, 0 to 1. `goals` are figures of which less is better; trials lack what they lack."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    made = {name: _distribution(optuna, choice) for name, choice in asked["choices"].items()}
    ped = asked["method"] == "ped"
    evaluators = optuna.importance
    found: dict[str, dict[str, float]] = {}
    for goal, values in asked["goals"].items():
        study = optuna.create_study(direction="minimize")
        study.add_trials(
            [optuna.create_trial(value=v, params=p, distributions={k: made[k] for k in p})
             for p, v in zip(asked["trials"], values, strict=True) if v is not None]
        )  # fmt: skip
        held: Any = evaluators.PedAnovaImportanceEvaluator() if ped else evaluators.FanovaImportanceEvaluator(seed=0)
        told = evaluators.get_param_importances(study, evaluator=held)
        found[goal] = {k: v for k, v in told.items() if v == v}
    return found


def _distribution(optuna: Any, choice: dict[str, Any]) -> Any:
    """What Optuna calls the space of a choice."""
    if "values" in choice:
        return optuna.distributions.CategoricalDistribution(choice["values"])
    kind = optuna.distributions.IntDistribution if choice["whole"] else optuna.distributions.FloatDistribution
    return kind(choice["low"], choice["high"], log=choice["log"])


if __name__ == "__main__":
    json.dump(importances(json.load(sys.stdin)), sys.stdout)
