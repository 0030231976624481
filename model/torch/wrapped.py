"""A leaf of a recorded model with formats around it, where the model's own code still finds what it asks a leaf for."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

from torch import Tensor, nn

from espalier.model.torch.layers import Compressed, Effective
from espalier.model.torch.low_rank import Adapted
from espalier.model.torch.mx_weights import MXLinear, values


class Surrounded(nn.Module):
    """A leaf between the formats of what flows in and out; the model's own code finds the leaf's settings here.

    Made by `surrounded`, as a subclass of the original's class too.
    """

    # As every module has them, whatever the original's class does about buffers, old state dicts and old pickles.
    _save_to_state_dict = nn.Module._save_to_state_dict
    _load_from_state_dict = nn.Module._load_from_state_dict

    def __init__(self, before: list[Effective], leaf: nn.Module, after: list[Effective], original: nn.Module) -> None:
        nn.Module.__init__(self)  # the next in line would be the original's class
        for i, part in enumerate((*before, leaf, *after)):
            self.add_module(str(i), part)
        self._place = len(before)
        base = _base(leaf)
        inner = base.inner if isinstance(base, Compressed) else base
        for name, value in original.named_buffers(recurse=False):
            if name not in inner._buffers:  # one that the model's own code gave it
                self.register_buffer(name, value, name not in original._non_persistent_buffers_set)
        if isinstance(base, MXLinear):  # tells the dtype of the weight that is no longer there, also after `to`
            self.register_buffer("_like", original.get_parameter("weight").new_empty(0), persistent=False)
        own = vars(inner)
        self._settings = {k: v for k, v in vars(original).items() if k != "training" and (k[0] != "_" or k not in own)}

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Through all parts; what comes beside the tensor (an `output_size`) is the leaf's."""
        name = "input" if "input" in kwargs else next(iter(kwargs), "")
        x, *others = args or (kwargs.pop(name),)
        for i, part in enumerate(self._modules.values()):
            assert part is not None
            x = part(x, *others, **kwargs) if i == self._place else part(x)
        return cast("Tensor", x)

    def __getattr__(self, name: str) -> Any:
        """What a module lacks: a setting (stride) as the original has it, a tensor as the leaf computes with it."""
        known: dict[str, Any] | None = self.__dict__.get("_settings")
        if known is not None and name in known:
            return known[name]
        try:
            return super().__getattr__(name)
        except AttributeError:
            if known is None or name.startswith("__"):  # half made, or asked by copy and pickle
                raise
        return self._of_leaf(name)

    def _of_leaf(self, name: str) -> Any:
        base = _base(self._modules[str(self._place)])
        if isinstance(base, Compressed):
            return base.tensor(name) if name in base.effective else getattr(base.inner, name)
        if isinstance(base, MXLinear) and name == "weight":
            return values(base.held, self._like.dtype)
        return getattr(base, name)

    def __reduce__(self) -> Any:
        """To be copied and pickled: the class has no name that it can be found by."""
        return _blank, (type(self).__bases__[1],), self.__dict__


def surrounded(before: list[Effective], leaf: nn.Module, after: list[Effective], original: nn.Module) -> Surrounded:
    """`leaf` in the place of `original`, whose class it has: `isinstance(self.fc, nn.Linear)` stays what it was."""
    return _like(type(original))(before, leaf, after, original)


@cache
def _like(kind: type[nn.Module]) -> type[Surrounded]:
    return type(kind.__name__, (Surrounded, kind), {})


def _blank(kind: type[nn.Module]) -> Surrounded:
    made = _like(kind)
    return made.__new__(made)


def _base(leaf: Any) -> Any:
    """The leaf without its adapter."""
    return _base(leaf.base) if isinstance(leaf, Adapted) and isinstance(leaf.base, nn.Module) else leaf
