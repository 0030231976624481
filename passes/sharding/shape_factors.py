"""What operations on shapes can be split along: views, permutations, slices, concatenations, reductions."""

from __future__ import annotations

import math
from collections.abc import Iterator

from espalier.passes.sharding.factors import RULES, Call, Factors, rule, same_dims


@rule("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "view_as")
def view(call: Call) -> Factors | None:
    """Dimensions that are merged or cut are split at the outermost one."""
    before, after = call.shapes["data_in"], call.shapes["data_out"]
    if math.prod(before) != math.prod(after) or not math.prod(before):
        return None
    ports, sizes, names = {"data_in": [""] * len(before), "data_out": [""] * len(after)}, dict[str, int](), {}
    for old, new in regrouped(before, after):
        if old and new:
            index = f"d{old[0]}"
            ports["data_in"][old[0]] = ports["data_out"][new[0]] = index
            sizes[index] = math.gcd(before[old[0]], after[new[0]])
            names[index] = call.name("data_in", old[0])
    whole = {p: ("",) * len(s) for p, s in call.shapes.items()}
    return Factors(whole | {p: tuple(x) for p, x in ports.items()}, sizes, names, linear=(frozenset({"data_in"}),))


def regrouped(before: tuple[int, ...], after: tuple[int, ...]) -> Iterator[tuple[list[int], list[int]]]:
    """The least groups of dimensions, without those of size 1, that hold the same elements before and after."""
    old, new = [i for i, n in enumerate(before) if n > 1], [i for i, n in enumerate(after) if n > 1]
    while old and new:
        left, right = [old.pop(0)], [new.pop(0)]
        while (a := math.prod(before[i] for i in left)) != (b := math.prod(after[i] for i in right)):
            if a < b:
                left.append(old.pop(0))
            else:
                right.append(new.pop(0))
        yield left, right


@rule("transpose", "permute", "t", "movedim")
def permuted(call: Call) -> Factors | None:
    """Each dimension at its new place."""
    rank, args = len(call.shapes["data_in"]), call.node.args
    order = list(range(rank))
    if call.node.op == "permute" and len(args) > 1 and isinstance(args[1], tuple):
        order = [d % rank for d in args[1] if isinstance(d, int)]
    elif call.node.op == "t":
        order.reverse()
    elif call.node.op == "transpose" and len(args) > 2 and isinstance(args[1], int) and isinstance(args[2], int):
        a, b = args[1] % rank, args[2] % rank
        order[a], order[b] = order[b], order[a]
    else:
        return None
    shape = call.shapes["data_in"]
    sizes = {f"d{i}": n for i, n in enumerate(shape) if n > 1}
    names = {f"d{i}": call.name("data_in", i) for i in range(rank)}
    inner = tuple(f"d{i}" if n > 1 else "" for i, n in enumerate(shape))
    return Factors({"data_in": inner, "data_out": tuple(inner[i] for i in order)}, sizes, names,
                   linear=(frozenset({"data_in"}),))  # fmt: skip


@rule("slice", "narrow", "pad", "roll", "flip", "split", "chunk", "split_with_sizes", "tril", "triu", "index_select")
def cut(call: Call) -> Factors | None:
    """Dimensions whose size changes, or in which values move, stay whole."""
    shape, op = call.shapes["data_in"], call.node.op
    if any(len(call.shapes[p]) != len(shape) for p in call.outs) or op in ("roll", "flip"):
        return None
    whole = {i for i, n in enumerate(shape) if any(call.shapes[p][i] != n for p in call.outs)}
    if op in ("tril", "triu"):
        whole = {len(shape) - 1, len(shape) - 2}
    if op == "index_select":
        whole.add((call.integer(1, "dim", 0) or 0) % len(shape))
    found = same_dims(call, whole)
    found.ports |= {p: ("",) * len(s) for p, s in call.shapes.items() if p not in ("data_in", *call.outs)}
    found.linear = (frozenset({"data_in"}),)
    return found


@rule("select", "unbind")
def selected(call: Call) -> Factors | None:
    """The dimension that is removed stays whole."""
    shape = call.shapes["data_in"]
    dim = (call.integer(1, "dim", 0) or 0) % len(shape)
    inner = tuple(f"d{i}" if n > 1 and i != dim else "" for i, n in enumerate(shape))
    sizes = {f"d{i}": n for i, n in enumerate(shape) if n > 1 and i != dim}
    names = {f"d{i}": call.name("data_in", i) for i in range(len(shape))}
    outer = (*inner[:dim], *inner[dim + 1 :])
    if any(len(call.shapes[p]) != len(outer) for p in call.outs):
        return None
    return Factors({"data_in": inner} | dict.fromkeys(call.outs, outer), sizes, names,
                   linear=(frozenset({"data_in"}),))  # fmt: skip


@rule("expand", "expand_as")
def expanded(call: Call) -> Factors | None:
    """A dimension that is repeated is split in the result alone."""
    before, after = call.shapes["data_in"], call.shapes["data_out"]
    skip = len(after) - len(before)
    outer = tuple(f"d{i}" if n > 1 else "" for i, n in enumerate(after))
    inner = tuple(outer[i + skip] if n == after[i + skip] else "" for i, n in enumerate(before))
    sizes = {f"d{i}": n for i, n in enumerate(after) if n > 1}
    names = {f"d{i}": call.name("data_out", i) for i in range(len(after))}
    whole = {p: ("",) * len(s) for p, s in call.shapes.items()}
    return Factors(whole | {"data_in": inner, "data_out": outer}, sizes, names, linear=(frozenset({"data_in"}),))


@rule("cat", "stack")
def joined(call: Call) -> Factors | None:
    """The dimension along which tensors are joined stays whole."""
    out = call.shapes["data_out"]
    dim = (call.integer(1, "dim", 0) or 0) % len(out)
    names = {f"d{i}": call.name("data_out", i) for i in range(len(out))}
    sizes = {f"d{i}": n for i, n in enumerate(out) if n > 1 and i != dim}
    outer = tuple(f"d{i}" if f"d{i}" in sizes else "" for i in range(len(out)))
    inner = (*outer[:dim], *outer[dim + 1 :]) if call.node.op == "stack" else outer
    if any(len(s) != len(inner) for p, s in call.shapes.items() if p not in call.outs):
        return None
    ports = {p: outer if p in call.outs else inner for p in call.shapes}
    return Factors(ports, sizes, names, linear=(frozenset(p for p, _ in call.inputs),))


@rule("sum", "mean", "amax", "amin", "var", "std", "prod", "any", "all")
def reduced(call: Call) -> Factors | None:
    """Dimensions that remain are split; of a sum also those that are summed."""
    shape, op, args = call.shapes["data_in"], call.node.op, call.node.args
    given = args[1] if len(args) > 1 else call.node.kwargs.get("dim")
    dims = given if isinstance(given, tuple) else (given,) if isinstance(given, int) else tuple(range(len(shape)))
    over = {d % len(shape) for d in dims if isinstance(d, int)} if shape else set[int]()
    inner = [f"d{i}" if n > 1 and (i not in over or op == "sum") else "" for i, n in enumerate(shape)]
    kept = len(call.shapes["data_out"]) == len(shape)
    outer = tuple("" if i in over else x for i, x in enumerate(inner) if kept or i not in over)
    if len(outer) != len(call.shapes["data_out"]):
        return None
    sizes = {x: n for x, n in zip(inner, shape, strict=True) if x}
    names = {f"d{i}": call.name("data_in", i) for i in range(len(shape))}
    summed = frozenset(f"d{i}" for i in over) if op == "sum" else frozenset[str]()
    linear = (frozenset({"data_in"}),) if op in ("sum", "mean") else ()
    return Factors({"data_in": tuple(inner)} | dict.fromkeys(call.outs, outer), sizes, names, summed, linear)


@rule("index")
def indexed(call: Call) -> Factors | None:
    """y[i…] = x[a[i…], b[i…]]: the indices are split, the tensor is whole."""
    out, ports = call.shapes["data_out"], {p: ("",) * len(s) for p, s in call.shapes.items()}
    inputs = [p for p, _ in call.inputs]
    if not inputs or len(call.shapes[inputs[0]]) != len(inputs) - 1:
        return None
    sizes = {f"d{i}": n for i, n in enumerate(out) if n > 1}
    ports["data_out"] = tuple(f"d{i}" if n > 1 else "" for i, n in enumerate(out))
    for port in inputs[1:]:
        skip = len(out) - len(call.shapes[port])
        ports[port] = tuple(f"d{i + skip}" if n > 1 else "" for i, n in enumerate(call.shapes[port]))
    return Factors(ports, sizes, {f"d{i}": call.name("data_out", i) for i in range(len(out))})


def factors_of(call: Call) -> Factors | None:
    """The factors of a call; None for an operation that runs whole on each rank."""
    found = RULES.get(call.node.op)
    return found(call) if found is not None and call.node.call != "opaque" and call.outs else None
