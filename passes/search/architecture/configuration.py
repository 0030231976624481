"""The configuration that a model came from, and what it says where some of its keys are others.

A candidate is named by a `config:` source, so whatever a search finds can be opened by anybody who has its name.
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
# Keys of a configuration that say nothing of the architecture, or that cannot be other than they are.
ASIDE = ("architectures", "model_type", "transformers_version", "torch_dtype", "dtype", "use_cache", "id2label",
         "label2id", "_name_or_path")  # fmt: skip
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers")
USUAL = ("num_hidden_layers", "num_layers", "num_attention_heads", "num_heads", "num_key_value_heads", "hidden_size",
         "d_model", "intermediate_size", "d_ff")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Origin:
    """What a model type and a task make of `values`, the keys that differ from the type's own.

    `aliases`: other names of keys. `known`: all keys there are. `info`: the source that it was read from. `attention`:
    how attention is computed, where the source says so.
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
        """The `config:` source in which `changes` take the place of the source's values."""
        values = self.values | {self.key(k): v for k, v in changes.items()}
        words = {k: _word(v) for k, v in sorted(values.items())}
        words |= {k: v for k, v in (("task", self.task), ("attn_implementation", self.attention)) if v}
        return f"config:{self.kind}" + (f"?{urlencode(words, quote_via=quote, safe='[],{}:')}" if words else "")


def origin_of(info: SourceInfo) -> Origin:
    """The configuration that a source was made from; raises PassError where there is none."""
    from espalier.model.sources.huggingface import TASKS, read_config

    attention = ""
    if info.spec.startswith("config:"):
        wish = read_config(info.spec)
        config, task, attention = wish.config, wish.task, wish.attention or ""
    else:
        config = _read(info)
        task = _task(config, TASKS)
    cls = type(config)
    defaults: Values = cls().to_dict()
    aliases: dict[str, str] = dict(getattr(cls, "attribute_map", {}))
    told = {k: v for k, v in config.to_diff_dict().items() if k not in ASIDE}
    told |= {k: v for k, v in config.to_dict().items() if k not in ASIDE and k in defaults and v != defaults[k]}
    if config.num_labels != cls().num_labels:
        told["num_labels"] = config.num_labels
    known = frozenset((set(defaults) | set(aliases) | {"num_labels"}) - set(ASIDE))
    plain = _needed(config.model_type, {k: v for k, v in told.items() if k in known})
    return Origin(info, config.model_type, task, plain, aliases, known, attention)


def why_not(origin: Origin, changes: Mapping[str, Any]) -> str:
    """Why no model can be made of these values, in transformers' own words; empty where one can.

    The model is built and run without weights (torch's meta device): milliseconds, whatever its size.
    """
    try:
        fault = _fault(origin, changes)
    except SourceError as error:
        return error.message
    # What the meta device cannot do with the source's own values either is no fault of these.
    return fault if fault and not _fault(origin, {}) else ""


def _fault(origin: Origin, changes: Mapping[str, Any]) -> str:
    """What the forward says of sizes that only meet there; raises SourceError where no model can be built."""
    import torch

    spec = origin.spec(changes)
    with torch.random.fork_rng(devices=()):
        loaded = load_source(spec + ("&" if "?" in spec else "?") + "weights=none", origin.info.inputs)
    example = {k: v.to("meta") if isinstance(v, torch.Tensor) else v for k, v in loaded.example.items()}
    try:
        with torch.no_grad():
            loaded.model(**example)
    # NotImplementedError, of what cannot run on meta, is one of them.
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        return first_line(error)
    return ""


# -- reading


def check_origin(info: SourceInfo) -> str:
    """Where a source's configuration lies, as far as can be told at once; raises PassError where there is none."""
    head, _, rest = info.spec.partition(":")
    if head == "config":
        return info.spec
    place = rest if head == "hf" else str(demo_folder(rest)) if head == "demo" else info.spec
    if head != "hf" and not (Path(place) / "config.json").is_file():
        raise PassError(f"{info.name} was not made from a configuration, so its architecture cannot be varied.",
                        "Open a Hugging Face folder, hf:NAME or config:TYPE?…, or vary formats, sparsity and "
                        "options.")  # fmt: skip
    return place


def _read(info: SourceInfo) -> Any:
    """The configuration beside a source's weights."""
    from transformers import AutoConfig

    from espalier.model.network import offline_if_unreachable
    from espalier.model.sources.huggingface import quiet

    place = check_origin(info)
    try:
        with quiet(), offline_if_unreachable():
            return AutoConfig.from_pretrained(place, trust_remote_code=False)
    # Damaged files, unknown types: transformers and its parsers raise many types.
    except Exception as error:
        raise PassError(f"The configuration of {info.name} cannot be read: {first_line(error)}",
                        "Put the model's config.json back.") from error  # fmt: skip


def _task(config: Any, tasks: Iterable[str]) -> str:
    """The task whose class the configuration names; the bare model's where it names none of them."""
    from transformers.models.auto import modeling_auto

    names = {"sequence-classification": "SEQUENCE_CLASSIFICATION", "causal-lm": "CAUSAL_LM",
             "masked-lm": "MASKED_LM", "token-classification": "TOKEN_CLASSIFICATION",
             "question-answering": "QUESTION_ANSWERING", "image-classification": "IMAGE_CLASSIFICATION",
             "seq2seq-lm": "SEQ_TO_SEQ_CAUSAL_LM"}  # fmt: skip
    wish = (config.architectures or [""])[0]
    for task in tasks:
        held: Mapping[str, Any] = getattr(modeling_auto, f"MODEL_FOR_{names.get(task, '')}_MAPPING_NAMES", {})
        found = held.get(config.model_type, ())
        if wish and wish in ((found,) if isinstance(found, str) else found):
            return task
    return ""


def _needed(kind: str, values: Values) -> Values:
    """The values without those that follow from the others: a head's size, each layer's type."""
    from espalier.model.sources.huggingface import make_config

    for key in list(values):
        rest = {k: v for k, v in values.items() if k != key}
        try:
            if make_config(kind, rest).to_dict().get(key) == values[key]:
                values = rest
        except SourceError:
            continue  # without it the others do not fit
    return values


def _word(value: Any) -> str:
    """As the `config:` form reads it again."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, separators=(",", ":")) if isinstance(value, list | dict | tuple) else str(value)
