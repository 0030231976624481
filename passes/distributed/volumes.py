"""Counts the collectives of a run and their bytes, by kind and by node, with torch's CommDebugMode."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.debug._comm_mode import NATIVE_TO_PY_MAPPING
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "alltoall", "scatter", "gather")


class Volumes(CommDebugMode):  # type: ignore[misc]
    """Collectives inside the context. `node`: the node that runs, set by the interpreter, and whether `backward`."""

    def __init__(self) -> None:
        super().__init__()
        self.node, self.backward = "", False
        self.counts: dict[tuple[str, bool, str], int] = defaultdict(int)
        self.sizes: dict[tuple[str, bool, str], int] = defaultdict(int)

    def __enter__(self) -> Volumes:
        """Begin to count, without the tracker of modules: it cannot follow an interpreter."""
        self.comm_counts.clear()
        TorchDispatchMode.__enter__(self)
        return self

    def __exit__(self, *args: Any) -> None:
        """Stop counting."""
        TorchDispatchMode.__exit__(self, *args)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation, and count it if it is a collective."""
        packet = getattr(func, "_overloadpacket", None)
        if packet is None or packet not in self.comm_registry or any(issubclass(t, DTensor) for t in types):
            return NotImplemented if any(issubclass(t, DTensor) for t in types) else func(*args, **(kwargs or {}))
        given = [v for v in pytree.tree_leaves((args, kwargs)) if isinstance(v, Tensor)]
        if given and not isinstance(given[0], FakeTensor):
            key = self.node, self.backward, kind_of(str(packet))
            self.counts[key] += 1
            self.sizes[key] += sum(v.nbytes for v in given)
            self.comm_counts[NATIVE_TO_PY_MAPPING.get(packet, packet)] += 1
        return func(*args, **(kwargs or {}))

    def rows(self) -> Iterator[dict[str, Any]]:
        """Node, collective, number of calls, and bytes that this rank gives to them."""
        for key, count in self.counts.items():
            node, backward, kind = key
            yield {"node": node, "collective": kind, "calls": count, "bytes": self.sizes[key]} | (
                {"pass": "backward" if backward else "forward"}
            )


def kind_of(name: str) -> str:
    """The collective of an operation's name: `_c10d_functional.all_gather_into_tensor` → all_gather."""
    last = name.rpartition(".")[2]
    found = next((k for k in KINDS if k in last), last)
    return "all_to_all" if found == "alltoall" else found
