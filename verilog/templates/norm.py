"""LayerNorm and RMS norm over rows: exact sums, inverse square root by table and Newton, scale and shift."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from espalier.verilog.design.template import Engine, Memory, Template
from espalier.verilog.numbers.fixed import Codes, Fixed, Rounding, covering, requantise

ROOT = 18  # fraction bits of the inverse square root
PLACES = 22  # fraction bits of its argument


@dataclass(frozen=True, kw_only=True, eq=False)
class Norm(Template):
    """`gamma` and `beta` [size] are codes in the order of a row's elements; beta has `beta_frac` fraction bits.

    `eps` is in units of (size · step of x)².
    """

    centered: bool
    eps: int
    gamma: Codes
    gamma_format: Fixed
    beta: Codes
    beta_frac: int
    rounding: Rounding = "nearest_even"

    @property
    def approximates(self) -> bool:
        """An inverse square root by table and Newton."""
        return True

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "norm"

    def uses(self) -> tuple[str, ...]:
        """Submodules."""
        return "inverse_root", "requant", "row_sums"

    @property
    def _size(self) -> int:
        return self.inputs[0].size

    @property
    def _places(self) -> int:
        """Fraction bits of the normalised value."""
        return min(max(self.outputs[0].fixed.frac + 6, 12), ROOT)

    @property
    def _normal(self) -> int:
        """Bits of the normalised value, whose magnitude is at most √size."""
        return self._places + ((self._size - 1).bit_length() + 1) // 2 + 2

    @property
    def _sum(self) -> Fixed:
        """The format in which t·gamma + beta is exact."""
        frac = max(self._places + self.gamma_format.frac, self.beta_frac)
        largest = 1 << (self._normal + self.gamma_format.width - 2 + frac - self._places - self.gamma_format.frac)
        largest += int(np.abs(self.beta).max()) << (frac - self.beta_frac)
        return covering(-largest - 1, largest, frac)

    def _variance(self) -> int:
        """Bits of size²·(variance + eps)."""
        x = self.inputs[0].fixed
        return (self._size**2 * max(x.low**2, x.high**2) + self.eps).bit_length()

    @property
    def _banks(self) -> int:
        """Rows in flight without stalls."""
        beats = self._size // self.inputs[0].par
        return -(-(2 * beats + 24) // beats) + 1

    def parameters(self) -> dict[str, int]:
        """Sizes and formats."""
        x, y, total = self.inputs[0], self.outputs[0], self._sum
        high, low = divmod(self.eps, 1 << 30)
        return {
            "SIZE": x.size, "PAR": x.par, "BANKS": self._banks, "CENTER": int(self.centered),
            "X_W": x.fixed.width, "X_S": int(x.fixed.signed), "EPS_HIGH": high, "EPS_LOW": low,
            "V_W": self._variance(), "R_F": ROOT, "T_F": self._places, "T_W": self._normal,
            "G_W": self.gamma_format.width, "G_SHIFT": total.frac - self._places - self.gamma_format.frac,
            "ACC_W": total.width, "ACC_F": total.frac, "Y_W": y.fixed.width, "Y_F": y.fixed.frac,
            "Y_S": int(y.fixed.signed), "MODE": int(self.rounding == "nearest_even"),
        }  # fmt: skip

    def memories(self) -> tuple[Memory, ...]:
        """The table of inverse square roots; gamma and beta by beat."""
        par, total = self.inputs[0].par, self._sum
        beta = self.beta << np.int64(total.frac - self.beta_frac)
        return (
            Memory("R_FILE", self._table()[:, None], ROOT + 1),
            Memory("G_FILE", self.gamma.reshape(-1, par), self.gamma_format.width),
            Memory("B_FILE", beta.reshape(-1, par), total.width),
        )

    def _table(self) -> Codes:
        """1/√u by the 8 highest bits of u in [1, 4); the first 64 entries are never read."""
        middle = (np.maximum(np.arange(256), 64) + 0.5) / 64
        return np.rint(2.0**ROOT / np.sqrt(middle)).astype(np.int64)

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """Sums, inverse square root, product and shift in integers."""
        x, size = codes[0], self._size
        s1 = x.sum(-1, keepdims=True) if self.centered else np.zeros((*x.shape[:-1], 1), np.int64)
        v = np.maximum(size * (x * x).sum(-1, keepdims=True) - s1 * s1 + self.eps, 1)
        root, exponent = self._root(v)
        t = ((size * x - s1) * root) >> (ROOT - self._places + exponent)
        total = self._sum
        scaled = (t * self.gamma) << np.int64(total.frac - self._places - self.gamma_format.frac)
        sums = scaled + (self.beta << np.int64(total.frac - self.beta_frac))
        return (requantise(sums, total.frac, self.outputs[0].fixed, self.rounding),)

    def _root(self, v: Codes) -> tuple[Codes, Codes]:
        """(r, j): 1/√v = r·2^−ROOT·2^−j."""
        exponent = np.zeros_like(v)
        for bit in range(2, 62, 2):
            exponent = np.where(v >> bit > 0, bit // 2, exponent)
        right = 2 * exponent - PLACES
        u = np.where(right >= 0, v >> np.maximum(right, 0), v << np.maximum(-right, 0))
        r = self._table()[u >> (PLACES - 6)]
        error = (u * ((r * r) >> ROOT)) >> PLACES
        return (r * ((3 << ROOT) - error)) >> (ROOT + 1), exponent

    def engines(self) -> tuple[Engine, ...]:
        """Rows are written, their inverse square roots computed, and read again."""
        x = self.inputs[0]
        beats = x.size // x.par
        step = np.tile(np.arange(beats), x.rows)
        always, first, last = step >= 0, step == 0, step == beats - 1
        rows = np.ones(x.rows, bool)
        return (
            Engine({"x": always, "free": first}, {"added": last}, 4),
            Engine({"added": rows}, {"rooted": rows}, 9),
            Engine({"rooted": first}, {"y": always, "free": last}, 7),
        )

    def buffers(self) -> dict[str, int]:
        """A slot for each row in flight."""
        return dict.fromkeys(("free", "added", "rooted"), self._banks)

    def primed(self) -> dict[str, int]:
        """All slots are initially free."""
        return {"free": self._banks}
