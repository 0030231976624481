"""Where a node came from: its module's path, the line of the user's code, the group it is shown in."""

from __future__ import annotations

import re

from torch import fx

from espalier.model.trace.flatten import Flat

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\w+)')
# Hugging Face models build their masks in functions so named; the nodes belong to no module of their own.
_MASK = re.compile(r"\w*mask\w*\(")
MASK_GROUP = "attention_mask"


class Places:
    """Module paths and source lines, memoised per stack trace."""

    def __init__(self, flat: Flat) -> None:
        self._flat = flat
        self._sources: dict[str, str] = {}

    def stack_end(self, node: fx.Node, above: bool = False) -> tuple[str, str]:
        """(key of the innermost module *call*, its path); a second call of one module has another key."""
        stack = list((node.meta.get("nn_module_stack") or {}).items())
        stack = stack[:-1] if above else stack
        if not stack:
            return "", ""
        key, (path, _) = stack[-1]
        if path.startswith("_empty_nn_module_stack"):
            return "", ""
        return str(key), str(path).removeprefix("L['self'].")

    def path(self, node: fx.Node, above: bool = False) -> str:
        """Module path of a node; mask code gets a group of its own, a repeated call its number.

        `above`: the path of the module that calls the innermost one.
        """
        key, path = self.stack_end(node, above)
        again = re.search(r"@\d+$", key)
        path = f"{path}{again.group()}" if again and path else path
        if self._is_mask(node):
            return f"{path}.{MASK_GROUP}" if path else MASK_GROUP
        return path

    def _is_mask(self, node: fx.Node) -> bool:
        lines = (node.meta.get("stack_trace") or "").strip().splitlines()
        return bool(lines) and (bool(_MASK.search(lines[-1])) or "masking_utils.py" in "".join(lines[-2:]))

    def source(self, node: fx.Node) -> str:
        """`transformers/models/bert/modeling_bert.py:175 forward`, the innermost frame outside torch."""
        trace = node.meta.get("stack_trace") or ""
        if trace not in self._sources:
            frames = [
                f for f in _FRAME.findall(trace) if "/torch/" not in f[0] and not f[0].startswith(("torch/", "<"))
            ]
            self._sources[trace] = f"{_short(frames[-1][0])}:{frames[-1][1]} {frames[-1][2]}" if frames else ""
        return self._sources[trace]


def _short(path: str) -> str:
    return path.rpartition("site-packages/")[2] if "site-packages/" in path else path.rpartition("/")[2]
