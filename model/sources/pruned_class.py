"""Models of transformers whose layers have fewer units than the configuration says; it lists them by name.

The list is data. Here it may only make a model smaller; other programs read it by `code_of`, in a file of its own.
"""

from __future__ import annotations

import inspect
from typing import Any

SHAPES, ATTRIBUTES = "pruned_shapes", "pruned_attributes"
FILE = "modeling_pruned"
SIGNATURE = "in the sizes that `pruned_shapes` and `pruned_attributes` of config.json list. Written by Espalier."
CODE = '''\
"""{name} {signature}"""

from typing import Any

from transformers import {name} as Base


{function}

class {name}(Base):
    """The model with layers of fewer units."""

    def __init__(self, config: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, *args, **kwargs)
        set_sizes(self, config)
'''


def set_sizes(model: Any, config: Any) -> None:
    """Cut parameters, buffers and attributes of the modules to the sizes that the configuration lists."""
    import torch

    for name, shape in config.pruned_shapes.items():
        path, _, attribute = name.rpartition(".")
        module = model.get_submodule(path)
        old = getattr(module, attribute)
        new = old.detach()[tuple(map(slice, shape))].clone()
        setattr(module, attribute, torch.nn.Parameter(new) if isinstance(old, torch.nn.Parameter) else new)
    for path, values in config.pruned_attributes.items():
        for name, value in values.items():
            setattr(model.get_submodule(path), name, value)
    model.tie_weights()


def pruned_class(cls: Any, config: Any) -> Any:
    """`cls` of transformers, or the class that cuts it to the sizes which `config` lists.

    Its constructor raises ValueError for a list that would do anything but make tensors and integers smaller.
    """
    if not hasattr(config, SHAPES) and not hasattr(config, ATTRIBUTES):
        return cls

    def begin(self: Any, config: Any, *args: Any, **kwargs: Any) -> None:
        cls.__init__(self, config, *args, **kwargs)
        _check(self, config)
        set_sizes(self, config)

    return type(cls.__name__, (cls,), {"__init__": begin, "__module__": __name__})


def is_pruned(model: Any) -> bool:
    """Whether the model is of a class that `pruned_class` made."""
    return type(model).__module__ == __name__


def whole_class(model: Any) -> Any:
    """The class of transformers that a pruned model cuts; the model's own class for any other."""
    return type(model).__mro__[1] if is_pruned(model) else type(model)


def code_of(model: Any) -> str:
    """The class of a pruned model as Python code, which needs torch and transformers."""
    return CODE.format(name=type(model).__name__, signature=SIGNATURE, function=inspect.getsource(set_sizes))


def _check(model: Any, config: Any) -> None:
    shapes, attributes = (getattr(config, n, None) for n in (SHAPES, ATTRIBUTES))
    tensors = {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers())}
    modules = dict(model.named_modules())
    if not isinstance(shapes, dict) or not isinstance(attributes, dict):
        raise ValueError(f"{SHAPES} and {ATTRIBUTES} are no tables")
    for name, shape in shapes.items():
        if name not in tensors or not _is_within(shape, list(tensors[name].shape)):
            raise ValueError(f"{SHAPES} has an impossible {name}")
    for path, values in attributes.items():
        if path not in modules or not isinstance(values, dict):
            raise ValueError(f"{ATTRIBUTES} has an impossible {path}")
        for name, value in values.items():
            old = vars(modules[path]).get(name)
            if isinstance(old, tuple):
                old, value = list(old), list(value) if isinstance(value, list | tuple) else value
            if not _is_within(value if isinstance(old, list) else [value], old if isinstance(old, list) else [old]):
                raise ValueError(f"{ATTRIBUTES} has an impossible {path}.{name}")


def _is_within(new: Any, old: list[Any]) -> bool:
    """Whether a list of positive integers is nowhere larger than another."""
    if not isinstance(new, list) or len(new) != len(old):
        return False
    return all(type(a) is int and type(b) is int and 1 <= a <= b for a, b in zip(new, old, strict=True))
