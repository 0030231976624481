"""A Hugging Face folder as a module on the meta device: its configuration and buffers, without reading its weights."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.errors import PASSING, EspalierError, SourceError, first_line
from espalier.model.sources.compressed import settings_in
from espalier.model.sources.config_sizes import check_sizes
from espalier.model.sources.huggingface import (
    example_inputs,
    model_class,
    quiet,
    read_config_file,
    reader_of,
    without_cache,
)  # fmt: skip
from espalier.model.sources.info import Loaded, SourceInfo
from espalier.model.sources.pruned_class import pruned_class
from espalier.model.store.shards import Shards

if TYPE_CHECKING:
    from torch import Tensor, nn

HALVES = ("bfloat16", "float16")


@dataclass(frozen=True, slots=True)
class ShapesOnly:
    """`loaded`: the module on the meta device. `buffers`: name → value of the buffers that its class computes."""

    loaded: Loaded
    shards: Shards
    buffers: dict[str, Tensor]


def shapes_only(spec: str) -> ShapesOnly:
    """Open a folder saved with `save_pretrained`, whose weights are safetensors; raises SourceError."""
    path = Path(spec).expanduser().resolve()
    if not (path / "config.json").exists():
        raise SourceError(f"{spec} is no Hugging Face folder.",
                          "Give a folder with config.json and safetensors.")  # fmt: skip
    raw = read_config_file(path / "config.json")
    if any(settings_in(raw)):
        raise SourceError(f"{path.name} holds codes of a quantised model.", "Give the folder of the float model.")
    check_sizes(raw)
    shards = Shards(path)
    model, buffers = _module(path, shards)
    uncached = without_cache(model)
    tokenizer = reader_of(path, model)
    import torch

    with torch.device("meta"):
        example = example_inputs(model)
    usual = {k: v for k, v in example.items() if not k.startswith("?")}
    info = SourceInfo(str(path), path.name, tokenizer=tokenizer, inputs=tuple(usual))
    return ShapesOnly(Loaded(info, model, usual, files=shards.files, uncached=uncached), shards, buffers)


def _module(path: Path, shards: Shards) -> tuple[Any, dict[str, Tensor]]:
    import torch
    from transformers import AutoConfig, initialization

    try:
        with quiet():
            config = AutoConfig.from_pretrained(str(path), trust_remote_code=False, local_files_only=True)
            cls = pruned_class(model_class(config), config)
            dtype = getattr(config, "dtype", None) or _dtype(shards)
            with initialization.no_init_weights(), _parameters_on_meta():
                make = cls._from_config if hasattr(cls, "_from_config") else cls.from_config
                model: Any = make(config, dtype=dtype)
            model.tie_weights()
    except (*PASSING, EspalierError):
        raise
    # transformers raises many types for impossible configurations and unknown architectures.
    except Exception as error:
        raise SourceError(f"{path.name} cannot be opened: {first_line(error)}",
                          "Check its config.json, or open it in memory.") from error  # fmt: skip
    _check_types(model, path.name)
    buffers = {name: value for name, value in model.named_buffers(remove_duplicate=False) if not value.is_meta}
    return model.to(torch.device("meta")).eval(), buffers


def _dtype(shards: Shards) -> Any:
    """The type of the first floating tensor, as transformers chooses where the configuration names none."""
    import torch

    names = (p.dtype for p in shards.places.values() if "float" in p.dtype)
    return getattr(torch, next(names, "float32"))


def _check_types(model: Any, name: str) -> None:
    """Raise SourceError for a class that keeps some weights of a model of 16 bits in float32."""
    dtype = str(model.dtype).removeprefix("torch.")
    kept = list(getattr(model, "_keep_in_fp32_modules_strict", None) or ())
    kept += list(getattr(model, "_keep_in_fp32_modules", None) or ()) if dtype == "float16" else []
    if dtype in HALVES and kept:
        raise SourceError(f"{name} keeps {kept[0]} in float32, which is not supported here.", "Open it in memory.")


@contextlib.contextmanager
def _parameters_on_meta() -> Generator[None]:
    """Move each parameter to the meta device when it is registered; buffers keep their values."""
    from torch import nn

    module: Any = nn.Module
    register = module.register_parameter

    def on_meta(owner: nn.Module, name: str, param: nn.Parameter | None) -> None:
        if param is not None and not param.is_meta:
            param = nn.Parameter(param.detach().to("meta"), param.requires_grad)
        register(owner, name, param)

    module.register_parameter = on_meta
    try:
        yield
    finally:
        module.register_parameter = register
