"""Names of symbolic sizes: torch's s27 becomes "batch" or "seq", consistently."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram

from espalier.model.graph.graph import out_port
from espalier.model.graph.meta import Dim, TensorMeta
from espalier.model.symbols import evaluate


class Names:
    """Symbol names of one exported program, and the example value of each."""

    def __init__(self, program: ExportedProgram) -> None:
        self.symbols: dict[str, int] = {}
        self.dynamic: dict[str, list[str]] = {}
        self.fixed: list[str] = []
        self._names: dict[Any, Any] = {}
        self._texts: dict[Any, Dim] = {}
        for name in program.graph_signature.user_inputs:
            node = next((n for n in program.graph.nodes if n.op == "placeholder" and n.name == name), None)
            value = node.meta.get("val") if node else None
            if isinstance(value, Tensor):
                self._read_input(str(name), value)

    def _read_input(self, name: str, value: Tensor) -> None:
        for axis, size in enumerate(value.shape):
            dimension = f"{name}[{axis}]"
            if not isinstance(size, torch.SymInt) or not size.node.expr.free_symbols:
                self.fixed.append(dimension)
                continue
            expression = size.node.expr
            if expression.is_Symbol and expression not in self._names:
                self._name(expression, self._common_name(name, axis, size.node.hint), size.node.hint)
            self.dynamic.setdefault(str(self._text(size)), []).append(dimension)

    def _common_name(self, name: str, axis: int, hint: int | None) -> str:
        """Inputs of equal size in the example share a name, such as one batch and one length."""
        common = "batch" if axis == 0 else "seq" if axis == 1 else f"{name}_{axis}"
        return common if self.symbols.get(common, hint) == hint else f"{common}_{name}"

    def _name(self, symbol: Any, name: str, hint: int | None) -> None:
        import sympy

        self._names[symbol] = sympy.Symbol(name, integer=True, positive=True)
        # A data-dependent size has no example value; 1 keeps counts finite.
        self.symbols[name] = 1 if hint is None else int(hint)

    def _text(self, size: torch.SymInt) -> Dim:
        expression = size.node.expr
        if expression not in self._texts:
            for symbol in sorted(expression.free_symbols, key=str):
                if symbol not in self._names:
                    hint = size.node.shape_env.backed_var_to_val.get(symbol)
                    self._name(symbol, str(symbol), hint)
            self._texts[expression] = self._write(expression, size)
        return self._texts[expression]

    def write(self, expression: Any) -> str | None:
        """The text of a size expression over named sizes only; None for one with other sizes."""
        import sympy

        expression = sympy.sympify(expression)
        if not expression.free_symbols <= set(self._names):
            return None
        return str(expression.xreplace(self._names)).replace(" ", "")

    def _write(self, expression: Any, size: torch.SymInt) -> Dim:
        text = str(expression.xreplace(self._names)).replace(" ", "")
        try:
            value = evaluate(text, self.symbols)
        except (ValueError, KeyError, ZeroDivisionError):
            return int(size.node.hint or 1)
        return value if not expression.free_symbols else text

    def meta(self, value: Tensor) -> TensorMeta:
        """Shape and dtype of a fake tensor."""
        shape = tuple(self._text(d) if isinstance(d, torch.SymInt) else int(d) for d in value.shape)
        return TensorMeta(shape, str(value.dtype).removeprefix("torch."))

    def outputs(self, value: Any) -> dict[str, TensorMeta]:
        """Output ports of a node whose fake value is `value` (a tensor, or a tuple with tensors)."""
        if isinstance(value, Tensor):
            return {"data_out": self.meta(value)}
        if isinstance(value, list | tuple):
            return {out_port(i): self.meta(v) for i, v in enumerate(value) if isinstance(v, Tensor)}
        return {}
