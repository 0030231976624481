"""A setting of GCC's OpenMP, whose threads torch uses: how long a waiting thread occupies its processor."""

from __future__ import annotations

import os

# By default a waiting thread spins 300 000 rounds. With as many threads as processors and any other busy program,
# most threads then wait for one that is not running: two trainings side by side on two processors took 20 times as
# long as with 1 000 rounds. A training that has the machine for itself takes about 9 % longer with 1 000.
ROUNDS = "1000"
CHOSEN = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


def yield_processors() -> None:
    """Let waiting threads of OpenMP release their processors soon; call it before torch is imported.

    What the user has set in the environment stays.
    """
    if not any(name in os.environ for name in CHOSEN):
        os.environ["GOMP_SPINCOUNT"] = ROUNDS
