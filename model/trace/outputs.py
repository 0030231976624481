"""Names of a model's results: fields of a Hugging Face output, keys of a dict, or positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import torch.utils._pytree as pytree
from torch.export import ExportedProgram

Structure = Literal["tensor", "tuple", "dict"]
RESULT = "output"  # id of the output node


def output_names(program: ExportedProgram) -> tuple[tuple[str, ...], Structure]:
    """(name of each flattened result in order, structure of the return value)."""
    spec = program.call_spec.out_spec
    if spec is None or spec.is_leaf():
        return ("output",), "tensor"
    positions: Any = pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
    names = dict(_names(positions, ""))
    ordered = tuple(names.get(i, f"output_{i}") for i in range(spec.num_leaves))
    return ordered, "dict" if isinstance(positions, Mapping) else "tuple"


def _names(value: Any, prefix: str) -> Iterator[tuple[int, str]]:
    if isinstance(value, int):
        yield value, prefix or "output"
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _names(inner, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            yield from _names(inner, f"{prefix}.{i}" if prefix else f"output_{i}")
