"""Provenance of a node: module path, line of the user's code, display group."""

from __future__ import annotations

import re

from torch import fx

from espalier.model.trace.flatten import Flat

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\w+)')
# Hugging Face models build masks in functions with these names; the nodes belong to no module of their own.
_MASK = re.compile(r"\w*mask\w*\(")
MASK_GROUP = "attention_mask"


class Provenance:
    """Module paths and source lines, memoised per stack trace."""

    def __init__(self, flat: Flat) -> None:
        self._flat = flat
        self._sources: dict[str, str] = {}

    def innermost_call(self, node: fx.Node, above: bool = False) -> tuple[str, str]:
        """(key of the innermost module *call*, the module's path); each call of a module has its own key."""
        stack = list((node.meta.get("nn_module_stack") or {}).items())
        stack = stack[:-1] if above else stack
        if not stack:
            return "", ""
        key, (path, _) = stack[-1]
        if path.startswith("_empty_nn_module_stack"):
            return "", ""
        return str(key), str(path).removeprefix("L['self'].")

    def path(self, node: fx.Node, above: bool = False) -> str:
        """Module path of a node, with the number of a repeated call; mask code has its own group.

        `above`: use the caller of the innermost module.
        """
        key, path = self.innermost_call(node, above)
        again = re.search(r"@\d+$", key)
        path = f"{path}{again.group()}" if again and path else path
        if self._is_mask(node):
            return f"{path}.{MASK_GROUP}" if path else MASK_GROUP
        return path

    def _is_mask(self, node: fx.Node) -> bool:
        lines = (node.meta.get("stack_trace") or "").strip().splitlines()
        return bool(lines) and (bool(_MASK.search(lines[-1])) or "masking_utils.py" in "".join(lines[-2:]))

    def source(self, node: fx.Node) -> str:
        """The innermost frame outside torch: `transformers/models/bert/modeling_bert.py:175 forward`."""
        trace = node.meta.get("stack_trace") or ""
        if trace not in self._sources:
            frames = [
                f for f in _FRAME.findall(trace) if "/torch/" not in f[0] and not f[0].startswith(("torch/", "<"))
            ]
            self._sources[trace] = f"{_short(frames[-1][0])}:{frames[-1][1]} {frames[-1][2]}" if frames else ""
        return self._sources[trace]


def _short(path: str) -> str:
    return path.rpartition("site-packages/")[2] if "site-packages/" in path else path.rpartition("/")[2]
