"""The Hugging Face configuration of a model, and its variants.

A variant is named by a `config:` source, so the result of a search can be opened anywhere by its name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from espalier.model.errors import OptionsError, PassError, SourceError, first_line, nearest
from espalier.model.sources.info import SourceInfo, demo_folder
from espalier.model.sources.source import load_source

Values = dict[str, Any]
UNKNOWN_SOURCE = "The model's source is unknown, so no other architecture can be built."
# Keys of a configuration that do not describe the architecture, or that cannot change.
IGNORED = ("architectures", "model_type", "transformers_version", "torch_dtype", "dtype", "use_cache", "id2label",
         "label2id", "_name_or_path")  # fmt: skip
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers")
USUAL = ("num_hidden_layers", "num_layers", "num_attention_heads", "num_heads", "num_key_value_heads", "hidden_size",
         "d_model", "intermediate_size", "d_ff")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Origin:
    """A configuration: model type (`kind`), task, and the `values` that differ from the type's defaults.

    `aliases`: other names of keys. `known`: all keys. `info`: the source that it was read from. `attention`: the
    attention implementation, if the source names one.
    """

    info: SourceInfo
    kind: str
    task: str
    values: Values
    aliases: dict[str, str]
    known: frozenset[str]
    attention: str = ""

    def key(self, name: str) -> str:
        """The configuration's own name of a key; raises OptionsError with the nearest."""
        if name not in self.known:
            sizes = ", ".join(k for k in USUAL if k in self.known)
            hint = f"{nearest(name, self.known)} Its sizes are {sizes}." if sizes else nearest(name, self.known)
            raise OptionsError(f"The {self.kind} configuration has no {name!r}.", hint)
        return self.aliases.get(name, name)

    def spec(self, changes: Mapping[str, Any]) -> str:
        """The `config:` source with `changes` to the source's values."""
        values = self.values | {self.key(k): v for k, v in changes.items()}
        query = {k: _text(v) for k, v in sorted(values.items())}
        query |= {k: v for k, v in (("task", self.task), ("attn_implementation", self.attention)) if v}
        return f"config:{self.kind}" + (f"?{urlencode(query, quote_via=quote, safe='[],{}:')}" if query else "")


def origin_of(info: SourceInfo) -> Origin:
    """The configuration of a source; raises PassError if there is none."""
    from espalier.model.sources.huggingface import TASKS, read_config

    attention = ""
    if info.spec.startswith("config:"):
        parsed = read_config(info.spec)
        config, task, attention = parsed.config, parsed.task, parsed.attention or ""
    else:
        config = _read(info)
        task = _task(config, TASKS)
    cls = type(config)
    defaults: Values = cls().to_dict()
    aliases: dict[str, str] = dict(getattr(cls, "attribute_map", {}))
    changed = {k: v for k, v in config.to_diff_dict().items() if k not in IGNORED}
    changed |= {k: v for k, v in config.to_dict().items() if k not in IGNORED and k in defaults and v != defaults[k]}
    if config.num_labels != cls().num_labels:
        changed["num_labels"] = config.num_labels
    keys = frozenset((set(defaults) | set(aliases) | {"num_labels"}) - set(IGNORED))
    values = _needed(config.model_type, {k: v for k, v in changed.items() if k in keys})
    return Origin(info, config.model_type, task, values, aliases, keys, attention)


def why_not(origin: Origin, changes: Mapping[str, Any]) -> str:
    """Why these values give no model, in transformers' words; empty if they do.

    The model is built and run without weights (torch's meta device): milliseconds at any size.
    """
    try:
        fault = _fault(origin, changes)
    except SourceError as error:
        return error.message
    # An error that the source's own values cause too is a limit of the meta device.
    return fault if fault and not _fault(origin, {}) else ""


def _fault(origin: Origin, changes: Mapping[str, Any]) -> str:
    """The error of the model's forward, or empty; raises SourceError if no model can be built."""
    import torch

    spec = origin.spec(changes)
    with torch.random.fork_rng(devices=()):
        loaded = load_source(spec + ("&" if "?" in spec else "?") + "weights=none", origin.info.inputs)
    example = {k: v.to("meta") if isinstance(v, torch.Tensor) else v for k, v in loaded.example.items()}
    try:
        with torch.no_grad():
            loaded.model(**example)
    # RuntimeError includes NotImplementedError, of operations without a meta kernel.
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        return first_line(error)
    return ""


# -- reading


def check_origin(info: SourceInfo) -> str:
    """The folder or name of a source's configuration, without loading it; raises PassError if there is none."""
    head, _, name = info.spec.partition(":")
    if head == "config":
        return info.spec
    location = name if head == "hf" else str(demo_folder(name)) if head == "demo" else info.spec
    if head != "hf" and not (Path(location) / "config.json").is_file():
        raise PassError(f"{info.name} has no configuration, so its architecture cannot be varied.",
                        "Open a Hugging Face folder, hf:NAME or config:TYPE?…, or vary formats, sparsity and "
                        "options.")  # fmt: skip
    return location


def _read(info: SourceInfo) -> Any:
    """The configuration of a source."""
    from transformers import AutoConfig

    from espalier.model.network import offline_if_unreachable
    from espalier.model.sources.huggingface import quiet

    location = check_origin(info)
    try:
        with quiet(), offline_if_unreachable():
            return AutoConfig.from_pretrained(location, trust_remote_code=False)
    # Damaged files, unknown types: transformers and its parsers raise many types.
    except Exception as error:
        raise PassError(f"The configuration of {info.name} cannot be read: {first_line(error)}",
                        "Restore the model's config.json.") from error  # fmt: skip


def _task(config: Any, tasks: Iterable[str]) -> str:
    """The task of the class that the configuration names; empty (the bare model) if it names none."""
    from transformers.models.auto import modeling_auto

    names = {"sequence-classification": "SEQUENCE_CLASSIFICATION", "causal-lm": "CAUSAL_LM",
             "masked-lm": "MASKED_LM", "token-classification": "TOKEN_CLASSIFICATION",
             "question-answering": "QUESTION_ANSWERING", "image-classification": "IMAGE_CLASSIFICATION",
             "seq2seq-lm": "SEQ_TO_SEQ_CAUSAL_LM", "semantic-segmentation": "SEMANTIC_SEGMENTATION"}  # fmt: skip
    architecture = (config.architectures or [""])[0]
    for task in tasks:
        mapping: Mapping[str, Any] = getattr(modeling_auto, f"MODEL_FOR_{names.get(task, '')}_MAPPING_NAMES", {})
        classes = mapping.get(config.model_type, ())
        if architecture and architecture in ((classes,) if isinstance(classes, str) else classes):
            return task
    return ""


def _needed(kind: str, values: Values) -> Values:
    """The values without those derived from others, such as a head's size or each layer's type."""
    from espalier.model.sources.huggingface import make_config

    for key in list(values):
        others = {k: v for k, v in values.items() if k != key}
        try:
            if make_config(kind, others).to_dict().get(key) == values[key]:
                values = others
        except SourceError:
            continue  # the others are invalid without it
    return values


def _text(value: Any) -> str:
    """The value in the form that `config:` sources parse."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, separators=(",", ":")) if isinstance(value, list | dict | tuple) else str(value)
