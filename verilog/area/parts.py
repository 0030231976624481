"""The parts of each module from its parameters, each counted in look-up tables or registers as if synthesised alone.

Products and memories follow Yosys' rules for 7-series devices: DSP block, block RAM or distributed RAM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

P = Mapping[str, int]
Counted = dict[str, float]
ROM_BIT = 1 / 64  # Yosys' cost of a bit of constant memory in tables
HALF, WHOLE = 129, 257  # Yosys' cost of blocks of 18 and 36 kbit
CARRIED = 0.2  # tables per bit of an incrementer: most of it is carry chain
FEW = 4  # words of a constant memory up to which it is merged into the logic behind it
GROUP = 8  # Yosys' cost of a group of tables as distributed RAM


@dataclass(frozen=True, slots=True)
class Parts:
    """`lut`, `ff`: counts by part name; `dsp`, `bram`: exact numbers of blocks."""

    lut: Counted = field(default_factory=dict)  # type: ignore[assignment]
    ff: Counted = field(default_factory=dict)  # type: ignore[assignment]
    dsp: int = 0
    bram: int = 0


def bits(count: int) -> int:
    """Width of a counter of values below `count`."""
    return max((count - 1).bit_length(), 1)


def ceil_div(value: int, by: int) -> int:
    """Quotient rounded up."""
    return -(-value // by)


def blocks(a: int, b: int, wide: int = 99) -> int:
    """DSP blocks of a signed product of a × b bits with a result of `wide` bits; 0 for small products."""
    if min(a, b) < 2 or min(a + b, wide) < 9:
        return 0
    long, short = max(a, b), min(a, b)
    return (1 if long <= 25 else 1 + ceil_div(long - 25, 24)) * (1 if short <= 18 else 1 + ceil_div(short - 18, 17))


def block_ram(depth: int, width: int) -> tuple[int, int]:
    """(cost, blocks of 18 kbit) of the cheapest block RAM layout for depth × width bits."""
    halves = [ceil_div(depth, 512 << k) * ceil_div(width, w) for k, w in enumerate((36, 18, 9, 4, 2, 1))]
    wholes = [ceil_div(depth, 512 << k) * ceil_div(width, w) for k, w in enumerate((72, 36, 18, 9, 4, 2, 1))]
    return min((min(halves) * HALF, min(halves)), (min(wholes) * WHOLE, 2 * min(wholes)))


def rom(depth: int, width: int) -> tuple[float, int]:
    """(tables, blocks) of a constant memory with a registered output."""
    cost, count = block_ram(depth, width)
    return (0.0, count) if depth * width * ROM_BIT > cost else (width * ceil_div(depth, 64), 0)


def multiport_rom(lanes: int, depth: int, width: int) -> int:
    """Blocks of a constant memory that `lanes` read at once, two ports per block; 0 where it becomes tables."""
    if lanes <= 2:
        return rom(depth, width)[1]
    halves = min(ceil_div(depth, 1024 << k) * ceil_div(width, w) for k, w in enumerate((18, 9, 4, 2, 1)))
    wholes = min(ceil_div(depth, 1024 << k) * ceil_div(width, w) for k, w in enumerate((36, 18, 9, 4, 2, 1)))
    cost, count = min((halves * HALF, halves), (wholes * WHOLE, 2 * wholes))
    pairs = ceil_div(lanes, 2)
    return count * pairs if depth * width * ROM_BIT > cost * pairs else 0


def async_ram(depth: int, width: int) -> tuple[float, float]:
    """(tables, registers) of a memory read in the same cycle; a few bits become registers."""
    tables = ram(depth, width, False)[0]
    return (0.0, float(depth * width)) if depth * width <= tables / 4 * GROUP + 4 else (tables, 0.0)


def ram(depth: int, width: int, registered: bool = True) -> tuple[float, int]:
    """(tables, blocks) of a memory with one write and one read port; `registered`: its output is registered."""
    groups = min(ceil_div(depth, 32) * ceil_div(width, 6), ceil_div(depth, 64) * ceil_div(width, 3))
    cost, count = block_ram(depth, width)
    return (0.0, count) if registered and groups * GROUP + 4 > cost else (4.0 * groups, 0)


def rounding(p: P, wide: int, frac: int) -> float:
    """Tables to round and saturate one value of `wide` bits with `frac` fraction bits."""
    drop = frac - p["Y_F"]
    remaining = max(wide - drop + 1, 2) if drop > 0 else wide - drop
    sticky = ceil_div(drop, 5) if drop > 1 and p["MODE"] else 0
    adds = remaining if drop > 0 and p["MODE"] else 0
    tested = remaining - p["Y_W"] + 1  # bits that decide saturation: the output's tables take a few directly
    saturates = p["Y_W"] + (1 if tested < 6 else 5 + ceil_div(tested, 6)) if tested > 1 else 0
    return CARRIED * adds + sticky + saturates


def varying(p: P, wide: int, frac: int) -> float:
    """Bits of a rounded result that are neither constant nor copies of each other."""
    drop = frac - p["Y_F"]
    return float(min(p["Y_W"], wide - drop + 1 if drop > 0 else wide))


def _soft(a: int, b: int, wide: int = 99) -> float:
    return 0.0 if blocks(a, b, wide) else float(a * b)


def _folded(
    p: P, a: int, b: int, sizes: tuple[int, int, int, int], memory: tuple[float, int], q: tuple[int, int]
) -> Parts:
    """The blocked matrix product of linear and matmul. `sizes`: inner, outer, products and results per cycle."""
    inner, outer, products, results = sizes
    sums, acc = a + b + bits(p["PAR_IN"]), p["ACC_W"]
    per = blocks(a, b, acc)
    replay = ram(inner, p["TOKENS"] * p["PAR_IN"] * p["X_W"], False)[0] if outer > 1 else 0.0
    lut = {
        "soft product": products * _soft(a, b, acc), "tree": (products - results) * float(sums),
        "accumulate": results * float(acc), "round": results * rounding(p, *q), "memory": memory[0], "replay": replay,
        "select": float(p["TOKENS"] * p["PAR_IN"] * p["X_W"]), "count": 2.0 * bits(inner * outer) + 10,
    }  # fmt: skip
    ff = {
        "soft product": float(products * (a + b)) if not per else 0.0,
        "sum": results * float(sums) if not per or p["PAR_IN"] > 2 else 0.0,  # DSP blocks add two products
        "wide": 24.0 * p["PAR_OUT"] if per and p["PAR_IN"] >= 8 else 0.0,
        "accumulate": results * float(acc), "result": results * varying(p, *q),
        "count": 2.0 * bits(inner * outer) + 15,
    }  # fmt: skip
    return Parts(lut, ff, products * per, memory[1])


def linear(p: P) -> Parts:
    """Weight memory, replayed input row, folded products."""
    inner, outer = p["IN_SIZE"] // p["PAR_IN"], p["OUT_SIZE"] // p["PAR_OUT"]
    words, results = inner * outer * p["GROUPS"], p["TOKENS"] * p["PAR_OUT"]
    w, b = rom(words, p["PAR_OUT"] * p["PAR_IN"] * p["W_W"]), rom(outer * p["GROUPS"], p["PAR_OUT"] * p["B_W"])
    base = _folded(p, p["X_W"] + 1 - p["X_S"], p["W_W"], (inner, outer, results * p["PAR_IN"], results),
                   (w[0] + b[0], w[1] + b[1]), (p["ACC_W"], p["ACC_F"]))  # fmt: skip
    weights = p["PAR_OUT"] * (p["PAR_IN"] * p["W_W"] if base.dsp == 0 else 0) + p["PAR_OUT"] * p["B_W"]
    return Parts(base.lut, {**base.ff, "words": float(weights)}, base.dsp, base.bram)


def matmul(p: P) -> Parts:
    """Folded products with the second operand in two banks."""
    inner, outer = p["K_SIZE"] // p["PAR_IN"], p["N_SIZE"] // p["PAR_OUT"]
    results = p["TOKENS"] * p["PAR_OUT"]
    lanes, group = (p["PAR_OUT"], p["PAR_IN"]) if p["ACROSS"] == 0 else (p["PAR_IN"], p["PAR_OUT"])
    tables, count = ram(2 * p["BATCH"] * inner * outer, group * p["B_W"])
    a, b = p["X_W"] + 1 - p["X_S"], p["B_W"] + 1 - p["B_S"]
    base = _folded(p, a, b, (inner, outer, results * p["PAR_IN"], results), (lanes * tables, lanes * count),
                   (p["Q_W"], p["Q_F"]))  # fmt: skip
    scaling = results * blocks(p["ACC_W"], bits(p["MUL"] + 1) + 1) if p["MUL"] > 1 else 0
    address = float(bits(2 * p["BATCH"] * inner * outer) * 6 + bits(p["BLOCKS"]) * 2)
    words = float(lanes * group * p["B_W"]) if base.dsp and not count else 0.0  # DSP registers hold x
    ff = {**base.ff, "address": address, "words": words, "sum": 0.0 if base.dsp else base.ff["sum"]}
    return Parts({**base.lut, "address": address}, ff, base.dsp + scaling, base.bram)


def _lanes(p: P, lut: Counted, ff: Counted, dsp: int = 0, bram: int = 0) -> Parts:
    """Add the handshake and result registers of a lane-wise module."""
    lanes = p.get("LANES", p.get("PAR", 1))
    result_bits = lanes * float(p.get("Y_W", p.get("W", 0)))
    return Parts({**lut, "control": 5.0}, {**ff, "result": result_bits, "control": 4.0}, dsp, bram)


def depthwise(p: P) -> Parts:
    """A multiplier and an accumulator per lane."""
    a, w, lanes, acc = p["X_W"] + 1 - p["X_S"], p["W_W"], p["LANES"], p["ACC_W"]
    weights, biases = rom(p["TAPS"] * p["BLOCKS"], lanes * w), rom(p["BLOCKS"], lanes * acc)
    count = float(bits(p["TAPS"] * p["BLOCKS"]) + bits(p["TAPS"]) + bits(p["BLOCKS"]))
    is_memory, has_blocks = p["TAPS"] * p["BLOCKS"] > FEW, p["BLOCKS"] > 1
    lut = {"soft": lanes * _soft(a, w), "weights": weights[0] * is_memory, "biases": biases[0] * has_blocks,
           "round": lanes * rounding(p, acc, p["ACC_F"]), "count": 1.5 * count}  # fmt: skip
    ff = {"count": count + 4, "weights": lanes * float(w * is_memory), "words": lanes * float(acc * has_blocks),
          "accumulate": lanes * float(acc)}  # fmt: skip
    return _lanes(p, lut, ff, lanes * blocks(a, w), weights[1] + biases[1])


def window(p: P) -> Parts:
    """Ring buffer of rows with its address counters."""
    per = p["BLOCKS"]
    ring, beat = p["RING_ROWS"] * p["IN_W"] * per, p["LANES"] * p["W"]
    tables, count = ram(ring, beat)
    address, number = float(bits(ring)), float(bits(p["IN_H"] * p["IN_W"] * per + ring) + 2)
    walk = sum(bits(p[n]) for n in ("OUT_H", "OUT_W", "K_H", "K_W", "GROUPS")) + bits(per)
    lut = {"ring": tables, "address": 8 * address, "number": 10 * number, "walk": 1.5 * walk, "pad": beat / 2.0}
    ff = {"address": 4 * address, "number": 8 * number, "walk": float(walk), "got": float(beat)}
    return _lanes(p, lut, ff, 0, count)


def norm(p: P) -> Parts:
    """Sums, inverse square root, normalising and affine products."""
    x, n = p["X_W"] + 1 - p["X_S"], (p["SIZE"]).bit_length()
    s1, s2, d, root, par, v = x + n, 2 * x + n, x + n + 1, p["R_F"] + 2, p["PAR"], p["V_W"]
    rows, table = ram(p["BANKS"] * p["SIZE"] // par, par * p["X_W"]), rom(256, p["R_F"] + 1)
    gamma, beta = rom(p["SIZE"] // par, par * p["G_W"]), rom(p["SIZE"] // par, par * p["ACC_W"])
    square = p["CENTER"] * blocks(s1, s1)
    lane = blocks(x, x) + blocks(d, root) + blocks(p["T_W"], p["G_W"])
    lut = {"memory": rows[0] + table[0] + gamma[0] + beta[0],
           "places": 4.0 * (ceil_div(s1, 6) * 2 + ceil_div(s2, 6) + 4), "sums": par * float(s1 + s2),
           "root": 8.0 * v, "shift": 3.0 * par * p["T_W"],
           "lane": par * (d + p["ACC_W"] + rounding(p, p["ACC_W"], p["ACC_F"])), "control": 90.0}  # fmt: skip
    ff = {"sums": 2.0 * (s1 + s2), "root": 4.0 * v, "lane": par * float(p["ACC_W"] + p["T_W"] + p["Y_W"]),
          "constants": par * 2.0 * p["ACC_W"], "control": 100.0}  # fmt: skip
    return Parts(lut, ff, par * lane + square + 6, rows[1] + table[1] + gamma[1] + beta[1])


def softmax(p: P) -> Parts:
    """Row maximum, exponentials by table, division, products."""
    x, par, e, r = p["X_W"] + 1 - p["X_S"], p["PAR"], p["E_F"] + 1, p["R_F"] + 1
    total, rows = e + bits(p["SIZE"]), p["BANKS"] * p["SIZE"] // par
    scores, powers, table = ram(rows, par * (p["X_W"] + 1)), ram(rows, par * e), rom(1 << p["T_BITS"], e)
    lane = blocks(x + 1, p["LOG2E"].bit_length() + 1) + blocks(e + 1, r + 1)
    lut = {"memory": scores[0] + powers[0], "table": par * table[0],
           "places": 4.0 * (ceil_div(x, 6) + ceil_div(total, 6) + ceil_div(r, 6)),
           "maximum": par * 2.0 * x, "shift": 3.0 * par * e, "sum": par * float(total),
           "divide": 2.0 * p["BITS"] * total + r, "round": par * rounding(p, e + r + 1, e + r - 2),
           "control": 100.0}  # fmt: skip
    ff = {"lane": par * float(2 * e + 2 * x + p["Y_W"]), "divide": float(2 * total + r), "sum": 2.0 * total,
          "control": 80.0}  # fmt: skip
    return Parts(lut, ff, par * lane, scores[1] + powers[1] + ceil_div(par, 2) * table[1])


def fold_max(p: P) -> Parts:
    """A comparator per lane."""
    wide, (tables, registers) = p["LANES"] * float(p["W"]), async_ram(p["BLOCKS"], p["LANES"] * p["W"])
    count = float(bits(p["COUNT"]) + bits(p["BLOCKS"]))
    single = wide if p["BLOCKS"] == 1 else 0.0
    lut = {"compare": 2 * wide, "kept": tables, "begin": single / 2, "count": count}
    return _lanes(p, lut, {"kept": registers, "count": count})


def fold_sum(p: P) -> Parts:
    """An accumulator and a multiplier per lane."""
    s = p["X_W"] + 1 - p["X_S"] + bits(p["COUNT"])
    m = p["MUL"].bit_length() + 1 if p["MUL"] > 1 else 0
    sums, count = p["LANES"] * float(s), float(bits(p["COUNT"]) + bits(p["BLOCKS"]))
    tables, registers = async_ram(p["BLOCKS"], p["LANES"] * s)
    lut = {"add": sums, "kept": tables, "count": count, "round": p["LANES"] * rounding(p, s + m, p["P_F"])}
    ff = {"sum": 0.0 if m else 2 * sums, "kept": registers, "count": count}
    return _lanes(p, lut, ff, p["LANES"] * blocks(s, m))


def pair(p: P) -> Parts:
    """An adder, multiplier or comparator per lane."""
    a, b, sums = p["X_W"] + 1 - p["X_S"], p["X1_W"] + 1 - p["X1_S"], p["LANES"] * float(p["S_W"])
    dsp = blocks(a, b, p["S_W"]) * p["LANES"] if p["OP"] == 2 else 0
    soft = p["LANES"] * float(a * b) if p["OP"] == 2 and not dsp else 0.0
    rounds = p["LANES"] * rounding(p, p["S_W"], p["S_F"])
    if p["OP"] > 4:  # a comparison: half a table per operand bit
        bit = {"compare": 0.5 * sums, "control": 2.0}
        return Parts(bit, {"result": 2.0 * p["LANES"], "control": 2.0})
    lut = {"add": (1, 1, 0, 2, 2)[p["OP"]] * sums, "soft": soft, "round": rounds}
    return _lanes(p, lut, {"sum": 0.0 if dsp else sums}, dsp)


def choose(p: P) -> Parts:
    """A multiplexer and a rounding per lane."""
    wide = float(p["LANES"] * max(p["X1_W"] + p["X1_UP"], p["X2_W"] + p["X2_UP"]))
    lut = {"choose": wide, "round": p["LANES"] * rounding(p, p["S_W"], p["S_F"]), "control": 4.0}
    ff = {"sum": wide, "result": p["LANES"] * varying(p, p["S_W"], p["S_F"]), "control": 2.0}
    return Parts(lut, ff)


def source(p: P) -> Parts:
    """Constant memory and its counter; neither where all beats are equal."""
    memory, count = rom(p["BEATS"], p["W"])
    address = float(bits(p["BEATS"]) if p["BEATS"] > 1 else 0)
    words = 0.0 if count or p["BEATS"] == 1 else float(p["W"])
    return Parts({"memory": memory if words else 0.0, "count": address, "control": 1.0},
                 {"result": words, "count": address, "control": 1.0}, 0, count)  # fmt: skip


def scale_shift(p: P) -> Parts:
    """A multiplier and an adder per lane."""
    lanes, x = p["LANES"], p["X_W"] + 1 - p["X_S"]
    m, b, count = rom(p["PERIOD"], lanes * p["M_W"]), rom(p["PERIOD"], lanes * p["S_W"]), float(bits(p["PERIOD"]))
    is_memory, dsp, sums = p["PERIOD"] > FEW, blocks(x, p["M_W"]), lanes * float(p["S_W"])
    lut = {"scale": m[0] if is_memory else 0.0, "shift": b[0] if is_memory else 0.0, "count": count,
           "add": 0.0 if dsp else sums, "round": lanes * rounding(p, p["S_W"], p["S_F"])}  # fmt: skip
    ff = {"scale": lanes * float(p["M_W"]) if is_memory else 0.0, "shift": sums if is_memory else 0.0, "count": count,
          "sum": 0.0 if dsp else sums, "few": 0.0 if is_memory else 5.0 * lanes}  # fmt: skip
    return _lanes(p, lut, ff, lanes * dsp, m[1] + b[1])


def lut(p: P) -> Parts:
    """One function table for all lanes, as block RAM or as distinct six-input tables."""
    lanes, count = p["LANES"], multiport_rom(p["LANES"], 1 << p["X_W"], p["BITS"])
    melted = 0.0 if count else float(lanes)
    tables = {"table": melted * p["LEAVES"], "choose": melted * p["CHOICES"], "control": 1.0}
    return Parts(tables, {"result": float(lanes * p["KEPT"]), "control": 1.0}, 0, count)


def line_segments(p: P) -> Parts:
    """A table of line segments, a multiplier and an adder per lane."""
    lanes, count = p["LANES"], multiport_rom(p["LANES"], 1 << (p["X_W"] - p["LOW"]), p["BITS"])
    melted, dsp = 0.0 if count else float(lanes), blocks(p["M_W"], p["LOW"] + 1)
    lut = {"table": melted * p["LEAVES"], "choose": melted * p["CHOICES"], "add": lanes * float(p["S_W"]),
           "round": lanes * rounding(p, p["S_W"], p["S_F"])}  # fmt: skip
    ff = {"base": lanes * float(p["BASES"] * (1 if count else 2)), "slope": melted * p["SLOPES"],
          "sum": lanes * float(p["S_W"]), "low": lanes * float(p["LOW"])}  # fmt: skip
    return _lanes(p, lut, ff, lanes * dsp, count)


def cast(p: P) -> Parts:
    """A rounding per lane."""
    drop = p["X_F"] - p["Y_F"]
    varies = min(p["Y_W"], p["X_W"] - drop + 1 if drop > 0 else p["X_W"])  # other bits are constant or copies
    round_off = p["LANES"] * rounding(p, p["X_W"], p["X_F"])
    return Parts({"round": round_off, "control": 1.0}, {"result": float(p["LANES"] * varies), "control": 1.0})


def relu(p: P) -> Parts:
    """An AND of each magnitude bit with the sign."""
    wide = float(p["LANES"] * (p["W"] - 1))
    return Parts({"and": wide, "control": 1.0}, {"result": wide, "control": 1.0})


def fifo(p: P) -> Parts:
    """FIFO in distributed RAM."""
    count = float(bits(p["DEPTH"]))
    tables, blocked = ram(p["DEPTH"], p["W"])
    chosen = float(p["W"] if blocked else p["W"] * (ceil_div(p["DEPTH"], 64) - 1))
    ff = {"count": 3 * count, "first": float(p["W"] if blocked else 0), "control": 1.0}
    return Parts({"memory": tables, "choose": chosen, "count": 4 * count, "control": 3.0}, ff, 0, blocked)


def fifo_ram(p: P) -> Parts:
    """FIFO in a RAM with a registered output."""
    count = float(bits(p["DEPTH"]))
    tables, blocked = ram(p["DEPTH"], p["W"])
    ff = {"read": 0.0 if blocked else float(p["W"]), "count": 3 * count, "control": 2.0}
    return Parts({"memory": tables, "count": 4 * count, "control": 4.0}, ff, 0, blocked)


def fork(p: P) -> Parts:
    """A register per reader."""
    return Parts({"reader": 2.0 * p["N"], "control": 2.0}, {"reader": float(p["N"])})


def resize(p: P) -> Parts:
    """Two registers of the least common multiple of both widths, and the output multiplexer."""
    from math import lcm

    group = lcm(p["PAR_IN"], p["PAR_OUT"])
    fills, drains = group // p["PAR_IN"], group // p["PAR_OUT"]
    chosen = p["PAR_OUT"] * p["W"] * float(ceil_div(drains, 4)) if drains > 1 else 0.0
    ff = {"held": 2.0 * group * p["W"], "count": float(bits(fills) + bits(drains)), "control": 2.0}
    return Parts({"choose": chosen, "control": 8.0}, ff)


def reorder(p: P) -> Parts:
    """Two banks and address counters."""
    tables, count = ram(2 * p["BEATS"], p["W"])
    address = float(bits(p["BEATS"]))
    ff = {"read": 0.0 if count else float(p["W"]), "count": 3 * address, "control": 8.0}
    return Parts({"memory": tables, "count": 4 * address, "control": 10.0}, ff, 0, count)


def gather(p: P) -> Parts:
    """Two banks and an address table."""
    tables, count = ram(2 * p["BEATS"], p["LANES"] * p["W"])
    address, reads = bits(p["BEATS"]), bits(p["LEAVE"])
    blocked = rom(p["LEAVE"], p["BITS"])[1]
    words = 0.0 if blocked else float(p["LEAVES"] + p["CHOICES"])
    lut = {"memory": tables, "words": words, "count": 2.0 * (address + reads), "control": 10.0,
           "pad": float(p["PADS"] * p["LANES"] * p["W"])}  # fmt: skip
    ff = {"read": 0.0 if count else float(p["LANES"] * p["W"]), "count": float(address + reads), "control": 14.0,
          "word": 0.0 if blocked else float(p["BITS"])}  # fmt: skip
    return Parts(lut, ff, 0, count + blocked)


def divide(p: P) -> Parts:
    """A long-division step per lane, and the final rounding."""
    lanes, top, bottom = p["LANES"], max(p["X_W"] + p["UP"], 2), p["X1_W"] + p["DOWN"]
    sizes = p["X_W"] * p["X_S"] + p["X1_W"] * p["X1_S"]
    lut = {"step": lanes * (2.0 * bottom + top), "round": lanes * (2.0 * max(top, p["Y_W"]) + bottom),
           "size": float(lanes * sizes), "count": float(bits(top + 1))}  # fmt: skip
    return _lanes(p, lut, {"step": lanes * (top + 2.0 * bottom + 3), "count": float(bits(top + 1))})


def pick(p: P) -> Parts:
    """A counter."""
    return Parts({"count": 2.0 * bits(p["PERIOD"])}, {"result": float(p["W"]), "count": float(bits(p["PERIOD"]) + 1)})


def chain(p: P) -> Parts:
    """A two-way multiplexer."""
    count = float(bits(p["A"]) + bits(p["B"]))
    return Parts({"choose": float(p["W"]), "count": count}, {"result": float(p["W"]), "count": count})


def replay(p: P) -> Parts:
    """A frame in distributed RAM."""
    count = float(bits(p["BEATS"]) + bits(p["TIMES"]))
    tables, blocked = ram(p["BEATS"], p["W"])
    lut = {"memory": tables, "choose": float(p["W"]), "count": 1.5 * count}
    result = float(p["W"] * (2 if blocked else 1))
    return Parts(lut, {"result": result, "count": count + 1}, 0, blocked)


PARTS: dict[str, Callable[[P], Parts]] = {
    "linear": linear, "matmul": matmul, "depthwise": depthwise, "window": window, "norm": norm, "softmax": softmax,
    "softmax_rows": softmax, "fold_max": fold_max, "fold_sum": fold_sum, "pair": pair, "scale_shift": scale_shift,
    "lut": lut, "pieces": line_segments, "cast_stream": cast, "relu": relu, "fifo": fifo, "fifo_ram": fifo_ram,
    "fork_stream": fork, "resize": resize, "reorder": reorder, "gather": gather, "divide": divide, "pick": pick,
    "chain": chain, "replay": replay, "choose": choose, "source": source,
}  # fmt: skip
