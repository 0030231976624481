"""The parts of the modules for sign weights and block formats, counted as in `parts`."""

from __future__ import annotations

from math import log2

from espalier.verilog.area.parts import PARTS, Counted, P, Parts, bits, blocks, ceil_div, ram, rom, rounding, varying


def linear_signs(p: P) -> Parts:
    """Signed sums in place of products; one-bit inputs are counted with a population count."""
    inner, outer = p["IN_SIZE"] // p["PAR_IN"], p["OUT_SIZE"] // p["PAR_OUT"]
    results, groups, x, acc = p["TOKENS"] * p["PAR_OUT"], p["GROUPS"], p["X_W"], p["ACC_W"]
    terms, sums = results * p["PAR_IN"], x + 1 - p["X_S"] + (p["PAR_IN"] - 1).bit_length()
    w = rom(inner * outer * groups, p["PAR_OUT"] * p["PAR_IN"] * p["W_W"])
    b = rom(outer * groups, p["PAR_OUT"] * acc)
    beat = float(p["TOKENS"] * p["PAR_IN"] * x)
    count = float(bits(inner * outer * groups) + bits(outer * groups))
    lut = {
        "ones": float(terms) if x == 1 else 0.0, "terms": float(terms * x) if x > 1 else 0.0,
        "zeros": float(terms * x) if p["W_W"] > 1 else 0.0, "accumulate": results * float(acc),
        "round": results * rounding(p, acc, p["ACC_F"]), "memory": w[0] + b[0], "select": beat,
        "replay": ram(inner, int(beat), False)[0] if outer > 1 else 0.0, "count": 2 * count + 8,
    }  # fmt: skip
    ff = {
        "words": beat + p["PAR_OUT"] * (p["PAR_IN"] * p["W_W"] * (w[1] == 0) + 2.0 * acc * (b[1] == 0)),
        "sum": results * float(sums), "accumulate": results * float(acc), "result": results * float(p["Y_W"]),
        "count": 2 * count + 12,
    }  # fmt: skip
    return Parts(lut, ff, 0, w[1] + b[1])


def threshold(p: P) -> Parts:
    """A sign bit, or a comparison with a constant."""
    wide = p["LANES"] * (p["X_W"] / 3 if p["T"] else 1.0)
    return Parts({"compare": wide, "control": 2.0}, {"result": float(p["LANES"]), "control": 1.0})


def _repeats(p: P) -> float:
    return float(bits(p["STEPS"]) + bits(p["BEATS"]))


def block_exponent(p: P) -> Parts:
    """Magnitudes, the OR of their bits, and its highest set bit."""
    lut = {"size": float(p["PAR"] * p["X_W"]) if p["X_S"] else 0.0, "or": float(p["X_W"] * ceil_div(p["PAR"], 5)),
           "place": 2.0 * p["X_W"], "count": 2 * _repeats(p) + 6}  # fmt: skip
    return Parts(lut, {"seen": float(p["X_W"]), "result": 8.0, "count": _repeats(p) + 2})


def block_mantissa(p: P) -> Parts:
    """A shifter, rounding and clipping per lane."""
    deep = log2(p["X_W"] + 1) / 2
    lut = {"shift": p["PAR"] * (p["X_W"] + p["Y_W"]) * deep, "round": p["PAR"] * 3.0 * p["Y_W"],
           "count": 2 * _repeats(p) + 16}  # fmt: skip
    if p.get("BACK"):
        lut["back"] = 2 * p["PAR"] * p["X_W"] * deep
    ff = {"operand": float(p["PAR"] * p["X_W"]), "result": float(p["PAR"] * p.get("O_W", p["Y_W"])),
          "exponent": 8.0 + bits(p["X_W"] + 1), "count": _repeats(p) + 2}  # fmt: skip
    return Parts(lut, ff)


def linear_blocks(p: P) -> Parts:
    """Block products whose sums are shifted by their exponents before accumulation."""
    inner, outer, results, acc = p["IN_SIZE"] // p["PAR_IN"], p["OUT_SIZE"] // p["PAR_OUT"], p["PAR_OUT"], p["ACC_W"]
    a, products, product_shift = p["X_W"] + 1 - p["X_S"], results * p["PAR_IN"], p.get("X_MOST", 0) + p["W_MOST"]
    per, sums, exponent = blocks(a, p["W_W"]), a + p["W_W"] + (p["PAR_IN"] - 1).bit_length(), bits(p["W_MOST"] + 2)
    w = rom(inner * outer, results * p["PAR_IN"] * p["W_W"])
    e = rom(ceil_div(inner, p["W_STEPS"]) * outer, results * exponent)
    b = rom(outer, results * acc)
    beat, count = float(p["PAR_IN"] * p["X_W"]), float(bits(inner * outer) + bits(inner) + bits(outer))
    shift = log2(product_shift + p["P_SHIFT"] + 2) / 2
    lut: Counted = {
        "soft product": products * (0.0 if per else float(a * p["W_W"])), "tree": (products - results) * float(sums),
        "shift": results * (acc + p.get("DROP", 0)) * shift, "accumulate": results * float(acc),
        "round": results * rounding(p, acc, p["ACC_F"]), "memory": w[0] + e[0] + b[0], "select": beat,
        "replay": ram(inner, int(beat), False)[0] if outer > 1 else 0.0, "count": 2 * count + 12,
    }  # fmt: skip
    ff = {  # DSP registers hold x, the products and their sum
        "words": products * float(p["W_W"]) if not w[1] else 0.0, "beat": 0.0 if per else beat,
        "products": 0.0 if per else products * float(a + p["W_W"]), "sum": 0.0 if per else results * float(sums),
        "accumulate": results * 2.0 * acc, "result": results * varying(p, acc, p["ACC_F"]), "count": count + 20,
    }  # fmt: skip
    return Parts(lut, ff, products * per, w[1] + e[1] + b[1])


PARTS.update({
    "linear_signs": linear_signs, "threshold": threshold, "block_exponent": block_exponent,
    "block_mantissa": block_mantissa, "linear_blocks": linear_blocks, "linear_block_weights": linear_blocks,
})  # fmt: skip
