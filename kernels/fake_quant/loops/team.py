"""Loops on torch's OpenMP team without Python in its threads, which would wait tens of µs each for the GIL.

Loops are called by address, so that one small function serves all loops of the same argument types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, typeof
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from espalier.kernels.fake_quant.loops.compiled import loop

_LONG, _INT, _BYTES = ir.IntType(64), ir.IntType(32), ir.IntType(8).as_pointer()
_WORK = ir.FunctionType(ir.VoidType(), [_BYTES])
_PARALLEL = ir.FunctionType(ir.VoidType(), [_WORK.as_pointer(), _BYTES, _INT, _INT])


def _called_at(result: Any) -> Any:
    """An intrinsic that calls the function compiled at an address with a tuple of arguments."""

    @intrinsic
    def call(typing: Any, address: Any, arguments: Any) -> Any:  # pyright: ignore[reportUnusedParameter]
        if any(isinstance(kind, types.Optional) for kind in arguments.types):
            return None  # keeps the argument layout that loops expect

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            kinds, convention = signature.args[1].types, context.call_conv
            target = builder.inttoptr(values[0], convention.get_function_type(result, kinds).as_pointer())
            arguments = cgutils.unpack_tuple(builder, values[1])
            _, value = convention.call_function(builder, target, result, kinds, arguments)  # loops raise nothing
            return context.get_dummy_value() if result == types.void else value

        return result(address, arguments), generate

    return call


def _in_team(piece: Callable[..., None]) -> Any:
    """(address of GOMP_parallel, threads, count, arguments): run `piece` (number, *arguments) for each number below
    `count`, dynamically scheduled on the team; all threads use the caller's denormal flags."""

    @intrinsic
    def run(typing: Any, parallel: Any, threads: Any, count: Any, arguments: Any) -> Any:  # pyright: ignore[reportUnusedParameter]
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            kinds = signature.args[3].types
            arguments = [
                _uncounted(context, builder, kind, value)
                for kind, value in zip(kinds, cgutils.unpack_tuple(builder, values[3]), strict=True)
            ]
            compiled = context.compile_subroutine(builder, piece, types.void(types.int64, *kinds))
            _Team(context, builder, compiled, arguments).begin(*values[:3])
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64, arguments), generate

    return run


def _uncounted(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """An array without an owner (the caller keeps it alive), since threads would contend for its reference count."""
    if not isinstance(kind, types.Array):
        return value
    array = context.make_array(kind)(context, builder, value)
    for part in ("meminfo", "parent"):
        setattr(array, part, cgutils.get_null_value(getattr(array, part).type))
    return array._getvalue()


class _Team:
    """The code of a parallel region: the data shared by all threads, and the work of each."""

    def __init__(self, context: Any, builder: Any, piece: Any, arguments: list[Any]) -> None:
        self.context, self.builder, self.piece, self.given = context, builder, piece, arguments
        self.seen = ir.LiteralStructType([_LONG, _LONG, _INT, *(value.type for value in arguments)])
        self.flags = {
            name: cgutils.get_or_insert_function(builder.module, _WORK, f"llvm.x86.sse.{name}mxcsr")
            for name in ("st", "ld")
        }

    def begin(self, parallel: Any, threads: Any, count: Any) -> None:
        """Store the shared data and start the region."""
        builder = self.builder
        seen = cgutils.alloca_once(builder, self.seen)
        for i, value in enumerate([_LONG(0), count]):
            builder.store(value, self._at(builder, seen, i))
        self._flag(builder, "st", self._at(builder, seen, 2))
        for i, value in enumerate(self.given, 3):
            builder.store(value, self._at(builder, seen, i))
        call = builder.inttoptr(parallel, _PARALLEL.as_pointer())
        builder.call(call, [self._work(), builder.bitcast(seen, _BYTES), builder.trunc(threads, _INT), _INT(0)])

    def _work(self) -> Any:
        """The work of a thread: take the next number until none is left."""
        module = self.builder.module
        work = ir.Function(module, _WORK, module.get_unique_name("team_work"))
        work.linkage = "internal"
        start, ask, do, end = (work.append_basic_block(name) for name in ("start", "ask", "do", "end"))
        builder = ir.IRBuilder(start)
        seen = builder.bitcast(work.args[0], self.seen.as_pointer())
        number_address = builder.alloca(_INT)
        self._flag(builder, "st", number_address)
        self._flag(builder, "ld", self._at(builder, seen, 2))
        count, *arguments = (builder.load(self._at(builder, seen, i)) for i in (1, *range(3, len(self.seen.elements))))
        builder.branch(ask)
        builder.position_at_end(ask)
        number = builder.atomic_rmw("add", self._at(builder, seen, 0), _LONG(1), "monotonic")
        builder.cbranch(builder.icmp_signed("<", number, count), do, end)
        builder.position_at_end(do)
        piece, kinds = self.context.declare_function(module, self.piece.fndesc), self.piece.signature.args
        self.context.call_conv.call_function(builder, piece, types.void, kinds, [number, *arguments])
        builder.branch(ask)
        builder.position_at_end(end)
        self._flag(builder, "ld", number_address)
        builder.ret_void()
        return work

    def _flag(self, builder: Any, name: str, address: Any) -> None:
        """Store or load the thread's floating-point flags."""
        builder.call(self.flags[name], [builder.bitcast(address, _BYTES)])

    @staticmethod
    def _at(builder: Any, seen: Any, i: int) -> Any:
        return builder.gep(seen, [_INT(0), _INT(i)], inbounds=True)


def _part(x: Any, start: Any, stop: Any) -> Any:
    """A slice of an array that may be None."""
    return None if x is None else x[start:stop]


@overload(_part, strict=False)
def _part_or_none(x: Any, start: Any, stop: Any) -> Any:  # a call by address needs exactly the compiled types
    if isinstance(x, types.NoneType):
        return lambda x, start, stop: None
    return lambda x, start, stop: x[start:stop]


_passes_at, _row_at = _called_at(types.int64), _called_at(types.void)


def _segment_chunk(
    k: Any, address: Any, x: Any, out: Any, gate: Any, unit: Any, shared: Any, c: Any, chunk: Any, results: Any
) -> None:
    start = k * chunk
    stop = min(start + chunk, x.size)
    rows = shared[start // unit :] if shared.shape[0] > 1 else shared
    results[k] = _passes_at(address, (x[start:stop], _part(out, start, stop), _part(gate, start, stop), unit, rows, c))


def _sum_chunk(k: Any, address: Any, x: Any, a: Any, b: Any, chunk: Any, results: Any) -> None:
    start = k * chunk
    _row_at(address, (x[start : min(start + chunk, x.size)], a, b, results[k]))


def _row_chunk(k: Any, address: Any, codes: Any, exponents: Any, out: Any, parameters: Any, chunk: Any) -> None:
    start = k * chunk
    stop = min(start + chunk, codes.shape[0])
    _row_at(address, (codes[start:stop], exponents[start:stop], out[start:stop], parameters))


_stretches_in_team, _sums_in_team, _rows_in_team = _in_team(_segment_chunk), _in_team(_sum_chunk), _in_team(_row_chunk)


@loop
def run_segments(
    parallel: Any, threads: Any, address: Any, x: Any, out: Any, gate: Any, unit: Any, shared: Any, c: Any, chunk: Any,
    results: Any,
) -> None:  # fmt: skip
    """Run the loop at `address` over chunks of `chunk` elements (whole units); writes each result into `results`."""
    _stretches_in_team(parallel, threads, results.size, (address, x, out, gate, unit, shared, c, chunk, results))


@loop
def run_sums(parallel: Any, threads: Any, address: Any, x: Any, a: Any, b: Any, chunk: Any, results: Any) -> None:
    """Run the loop (x, a, b, row) at `address` over chunks of `chunk` elements, with a row of `results` each."""
    _sums_in_team(parallel, threads, results.shape[0], (address, x, a, b, chunk, results))


@loop
def run_rows(
    parallel: Any, threads: Any, address: Any, codes: Any, exponents: Any, out: Any, parameters: Any, chunk: Any
) -> None:
    """The loop (codes, exponents, out, given) at `address` over chunks of `chunk` rows."""
    count = (codes.shape[0] + chunk - 1) // chunk
    _rows_in_team(parallel, threads, count, (address, codes, exponents, out, parameters, chunk))


def address_of(function: Any, arguments: tuple[Any, ...], result: Any = np.int64) -> int:
    """Address of a loop compiled for these arguments; 0 if its result type is not `result`."""
    kinds = tuple(typeof(argument) for argument in arguments)
    function.compile(kinds)
    compiled = function.overloads[kinds]
    expected = types.none if result is None else from_dtype(np.dtype(result))
    if compiled.signature.return_type != expected:
        return 0
    return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name))
