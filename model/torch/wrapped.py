"""A leaf of a recorded model wrapped in formats, with the attributes of the original leaf for the model's own code."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

from torch import Tensor, nn

from espalier.model.torch.layers import Compressed, Effective
from espalier.model.torch.low_rank import Adapted
from espalier.model.torch.mx_weights import MXLinear, values


class WrappedLeaf(nn.Module):
    """A leaf between the formats of its input and result; it has the original leaf's attributes.

    Created by `wrapped_leaf`, as a subclass of the original's class too.
    """

    # Those of nn.Module, not of the original's class, which may treat buffers and old state dicts specially.
    _save_to_state_dict = nn.Module._save_to_state_dict
    _load_from_state_dict = nn.Module._load_from_state_dict

    def __init__(self, before: list[Effective], leaf: nn.Module, after: list[Effective], original: nn.Module) -> None:
        nn.Module.__init__(self)  # super() would be the original's class
        for i, part in enumerate((*before, leaf, *after)):
            self.add_module(str(i), part)
        self._leaf_index = len(before)
        base = _base(leaf)
        inner = base.inner if isinstance(base, Compressed) else base
        for name, value in original.named_buffers(recurse=False):
            if name not in inner._buffers:  # added by the model's own code
                self.register_buffer(name, value, name not in original._non_persistent_buffers_set)
        if isinstance(base, MXLinear):  # has the dtype of the weight that is not stored, also after `to`
            self.register_buffer("_like", original.get_parameter("weight").new_empty(0), persistent=False)
        names = vars(inner)
        self._settings = {
            k: v for k, v in vars(original).items() if k != "training" and (k[0] != "_" or k not in names)
        }

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Run all parts; further arguments (such as `output_size`) are passed to the leaf."""
        name = "input" if "input" in kwargs else next(iter(kwargs), "")
        x, *others = args or (kwargs.pop(name),)
        for i, part in enumerate(self._modules.values()):
            assert part is not None
            x = part(x, *others, **kwargs) if i == self._leaf_index else part(x)
        return cast("Tensor", x)

    def __getattr__(self, name: str) -> Any:
        """An attribute of the leaf: a setting such as `stride` from the original, a tensor with its effective value."""
        settings: dict[str, Any] | None = self.__dict__.get("_settings")
        if settings is not None and name in settings:
            return settings[name]
        try:
            return super().__getattr__(name)
        except AttributeError:
            if settings is None or name.startswith("__"):  # during construction, or from copy and pickle
                raise
        return self._of_leaf(name)

    def _of_leaf(self, name: str) -> Any:
        base = _base(self._modules[str(self._leaf_index)])
        if isinstance(base, Compressed):
            return base.tensor(name) if name in base.effective else getattr(base.inner, name)
        if isinstance(base, MXLinear) and name == "weight":
            return values(base.packed, self._like.dtype)
        return getattr(base, name)

    def __reduce__(self) -> Any:
        """Support copying and pickling, as the class cannot be imported by name."""
        return _blank, (type(self).__bases__[1],), self.__dict__


def wrapped_leaf(before: list[Effective], leaf: nn.Module, after: list[Effective], original: nn.Module) -> WrappedLeaf:
    """`leaf` in place of `original`, with its class: `isinstance(self.fc, nn.Linear)` stays true."""
    return _like(type(original))(before, leaf, after, original)


@cache
def _like(kind: type[nn.Module]) -> type[WrappedLeaf]:
    return type(kind.__name__, (WrappedLeaf, kind), {})


def _blank(kind: type[nn.Module]) -> WrappedLeaf:
    cls = _like(kind)
    return cls.__new__(cls)


def _base(leaf: Any) -> Any:
    """The leaf without its adapter."""
    return _base(leaf.base) if isinstance(leaf, Adapted) and isinstance(leaf.base, nn.Module) else leaf
