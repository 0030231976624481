"""Models of the transformers library: from a folder, the hub's cache, or a configuration. Never remote code."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import sys
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from logging import CRITICAL
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from espalier.model.borders import parse_json, read_bytes, tried
from espalier.model.data.class_names import local_file
from espalier.model.data.extractors import FILE
from espalier.model.errors import PASSING, EspalierError, SourceError, first_line, nearest
from espalier.model.memory import free
from espalier.model.network import offline_if_unreachable
from espalier.model.sources import compressed, torchao
from espalier.model.sources.config_sizes import check_sizes
from espalier.model.sources.info import KINDS, Loaded, SourceInfo
from espalier.model.sources.pair_examples import pair_inputs, takes_pairs
from espalier.model.sources.pruned_class import pruned_class
from espalier.model.sources.sound_examples import LENGTH, SOUNDS, set_length, sound_inputs, takes_sounds

if TYPE_CHECKING:
    from torch import nn

TASKS = {
    "": "AutoModel", "sequence-classification": "AutoModelForSequenceClassification",
    "causal-lm": "AutoModelForCausalLM", "masked-lm": "AutoModelForMaskedLM",
    "token-classification": "AutoModelForTokenClassification", "question-answering": "AutoModelForQuestionAnswering",
    "image-classification": "AutoModelForImageClassification", "seq2seq-lm": "AutoModelForSeq2SeqLM",
    "semantic-segmentation": "AutoModelForSemanticSegmentation",
    "audio-classification": "AutoModelForAudioClassification",
}  # fmt: skip
IMAGE_SIZE = "image_size"  # of the example, also of configurations that have none
START = "decoder_start_token_id"  # which T5's configuration does not list
TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "tokenizer.model", "spiece.model")


@contextlib.contextmanager
def quiet() -> Generator[None]:
    """Disable warnings and progress bars of transformers and the hub."""
    from huggingface_hub.utils import logging as hub
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    retries = hub.get_verbosity()
    logging.set_verbosity(CRITICAL)
    hub.set_verbosity(CRITICAL)
    if bars:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        hub.set_verbosity(retries)
        if bars:
            logging.enable_progress_bar()


def from_folder(spec: str) -> Loaded:
    """A model saved with `save_pretrained`; raises SourceError."""
    path = Path(spec).expanduser().resolve()
    if not (path / "config.json").exists():
        raise SourceError(f"{path.name} has no config.json, so it is not a Hugging Face folder.", f"Give {KINDS}.")
    if not any(path.glob("*.safetensors")) and not any(path.glob("*.bin")):
        raise SourceError(f"{path.name} holds a configuration but no weights.",
                          "Add model.safetensors, or open it as config:TYPE?….")  # fmt: skip
    check_sizes(read_config_file(path / "config.json"))
    check_memory(path)
    model, example, uncached = _pretrained(str(path))
    tokenizer = reader_of(path, model)
    coded = any(compressed.settings_in(read_config_file(path / "config.json")))  # whose files hold other tensors
    files = () if coded else tuple(sorted(path.glob("*.safetensors")))
    return Loaded(SourceInfo(str(path), path.name, tokenizer=tokenizer), model, example, files=files, uncached=uncached)


def reader_of(path: Path, model: Any) -> str | None:
    """The folder if it holds a tokenizer, or a feature extractor of a model of sounds."""
    files = TOKENIZER_FILES if getattr(model, "main_input_name", "") not in SOUNDS else (*TOKENIZER_FILES, FILE)
    return str(path) if any((path / name).exists() for name in files) else None


def check_memory(folder: Path) -> None:
    """Raise SourceError for weights that do not fit into the free memory, where the system would end the process."""
    size, room = sum(f.stat().st_size for f in folder.glob("*.safetensors")), free()
    if size > room:
        raise SourceError(
            f"{folder.name} has {size / 2**30:.1f} GiB of weights, and {room / 2**30:.1f} GiB of memory are free.",
            "Measure and quantise it in parts: espalier stream FOLDER, see Models larger than memory in the guide.",
        )


def read_config_file(path: Path) -> dict[str, Any]:
    """The JSON of a configuration; empty if it is invalid, which transformers then reports. Raises SourceError."""
    data = tried(lambda: parse_json(read_bytes(path)), {})
    return data if isinstance(data, dict) else {}


def from_hub(spec: str) -> Loaded:
    """A model by its name on the hub, from the cache or online; raises SourceError."""
    name = spec.partition(":")[2]
    with offline_if_unreachable():
        model, example, uncached = _pretrained(name)
    return Loaded(SourceInfo(spec, name, tokenizer=name), model, example, uncached=uncached)


def _check_complete(name: str, loading: Mapping[str, Any]) -> None:
    """Raise SourceError where tensors are not in the files, or of other sizes: transformers draws them at random."""
    if wrong := sorted(loading["mismatched_keys"]):
        (key, stored, wanted), more = wrong[0], f" ({len(wrong) - 1} more differ)" if len(wrong) > 1 else ""
        sizes = [" × ".join(map(str, size)) for size in (stored, wanted)]
        raise SourceError(f"{Path(name).name} cannot be loaded: {key} has {sizes[0]} values in its files, and "
                          f"{sizes[1]} by its configuration{more}.",
                          "Give the folder its own config.json.")  # fmt: skip
    if missing := sorted(loading["missing_keys"]):
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise SourceError(f"{Path(name).name} has no {missing[0]}{more}.",
                          "Give a complete folder, with the configuration that belongs to it.")  # fmt: skip


def model_class(config: Any) -> Any:
    """The class of transformers that a configuration names; AutoModel for none, or a name that is no model there."""
    import transformers

    found = getattr(transformers, (getattr(config, "architectures", None) or [""])[0], None)
    is_model = isinstance(found, type) and issubclass(found, transformers.PreTrainedModel)
    return found if is_model else transformers.AutoModel


def _pretrained(name: str) -> tuple[nn.Module, dict[str, Any], tuple[Any, ...]]:
    from transformers import AutoConfig

    try:
        with quiet():
            config = AutoConfig.from_pretrained(name, trust_remote_code=False)
            check_sizes(values := config.to_dict())
            cached = _no_cache(config)
            _size_images(config, name)
            set_length(config, name)
            cls = pruned_class(model_class(config), config)
            for settings in compressed.settings_in(values):
                compressed.check_settings(settings)
                torchao.check_settings(settings)
            with contextlib.redirect_stderr(io.StringIO()):  # bars of progress
                model, loading = cls.from_pretrained(
                    name, config=config, trust_remote_code=False, output_loading_info=True,
                    ignore_mismatched_sizes=True,  # which `_check_complete` refuses by their names
                )  # fmt: skip
            _check_complete(name, loading)
            compressed.decompress(model)
            torchao.dequantise(model)
    except (*PASSING, SourceError):
        raise
    # transformers and its parsers raise many types for damaged files, unknown architectures and a missing network.
    except BaseException as error:
        hint = "Check the name, the network or the cache, or give an intact local folder."
        called = Path(name).name if Path(name).exists() else name
        raise SourceError(f"{called} cannot be loaded: {first_line(error)}", hint) from error
    return model, example_inputs(model), (model.config,) if cached else ()


def _size_images(config: Any, name: str) -> None:
    """Set the size of images from the model's preprocessor, where the configuration leaves it open, as SegFormer's."""
    if hasattr(config, IMAGE_SIZE) or not hasattr(config, "num_channels"):
        return
    file = local_file(name, "preprocessor_config.json")
    size = read_config_file(file).get("size") if file else None
    ends = [size.get("height"), size.get("width")] if isinstance(size, dict) else [size, size]
    if all(isinstance(end, int) and end > 0 for end in ends):
        config.image_size = ends


def _no_cache(config: Any) -> bool:
    """Disable cache objects, which a graph cannot return; returns whether the configuration had enabled them."""
    was_on = bool(getattr(config, "use_cache", None))
    if was_on:
        config.use_cache = False
    return was_on


def without_cache(model: Any) -> tuple[Any, ...]:
    """Disable the caches of transformers modules in a model built elsewhere, with which export fails.

    Returns the configurations that had enabled them.
    """
    if "transformers" not in sys.modules:
        return ()
    from transformers import PreTrainedModel

    return tuple(p.config for p in model.modules() if isinstance(p, PreTrainedModel) and _no_cache(p.config))


def from_config(spec: str) -> Loaded:
    """`config:TYPE?key=value&task=…&weights=random|none`: an untrained model; raises SourceError."""
    source = read_config(spec)
    unpadded = source.task == "sequence-classification" and "pad_token_id" not in source.keys
    notes = _pad(source.config, source.kind) if unpadded else ()
    extra: dict[str, Any] = {"attn_implementation": source.attention} if source.attention else {}
    model, example = _from_config(source.kind, source.config, source.task, source.without_weights, extra)
    notes += _start(model, source.kind) if source.task == "seq2seq-lm" else ()
    uncached = (model.config,) if source.wants_cache else ()
    return Loaded(SourceInfo(spec, f"{source.kind} (configuration)"), model, example, notes=notes, uncached=uncached)


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """A parsed `config:` source. `keys`: the keys that it sets; `without_weights`: build on the meta device.

    `wants_cache`: it enables caches, which are disabled in `config`.
    """

    kind: str
    config: Any
    task: str
    keys: frozenset[str]
    attention: str | None
    without_weights: bool
    wants_cache: bool


def read_config(spec: str) -> ConfigSource:
    """The configuration that a `config:` source describes; raises SourceError."""
    kind, _, query = spec.partition(":")[2].partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    task, weights = options.pop("task", ""), options.pop("weights", "random")
    values = {k: _value(v) for k, v in options.items()}
    attention = values.pop("attn_implementation", None)
    if task not in TASKS:
        raise SourceError(f"There is no task {task!r}.", nearest(task, [t for t in TASKS if t]))
    if weights not in ("random", "none"):
        raise SourceError(f"weights is {weights!r}.", "Write weights=random or weights=none.")
    config = make_config(kind, values)
    cached = _no_cache(config)
    return ConfigSource(kind, config, task, frozenset(values), attention, weights == "none", cached)


def _pad(config: Any, kind: str) -> tuple[str, ...]:
    """Set a missing padding token, since a classifier uses the last token before padding; returns notes."""
    size, eos = getattr(config, "vocab_size", None), getattr(config, "eos_token_id", None)
    if not isinstance(size, int) or getattr(config, "pad_token_id", None) is not None:
        return ()
    config.pad_token_id = eos if isinstance(eos, int) and 0 <= eos < size else 0
    return (f"The {kind} configuration has no padding token, so {config.pad_token_id} stands for it; "
            "pad_token_id=… names another.",)  # fmt: skip


def _start(model: Any, kind: str) -> tuple[str, ...]:
    """Set a missing token with which a decoder starts to the padding, as T5 has it; returns notes."""
    from espalier.model.sources.limits import start_of

    pad, size, start = getattr(model.config, "pad_token_id", None), model.config.vocab_size, start_of(model)
    if not isinstance(pad, int) or (start is not None and start < size):
        return ()
    setattr(model.config, START, pad)
    what = f"has no {START}" if start is None else f"has the {START} {start}, beyond its vocabulary"
    return (f"The {kind} configuration {what}, so its padding {pad} stands for it; {START}=… names another.",)


def _from_config(
    kind: str, config: Any, task: str, without_weights: bool, extra: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    import torch
    import transformers

    try:
        with quiet(), torch.device("meta" if without_weights else "cpu"):
            model = getattr(transformers, TASKS[task]).from_config(config, trust_remote_code=False, **extra)
            return model, example_inputs(model)
    except EspalierError:
        raise
    # Constructors raise various types for inconsistent sizes.
    except Exception as error:
        raise SourceError(f"{kind} cannot be built from this configuration: {first_line(error)}",
                          "Correct its values.") from error  # fmt: skip


def make_config(kind: str, values: dict[str, Any]) -> Any:
    """The configuration of a model type; raises SourceError for an unknown key or an impossible value."""
    from transformers import CONFIG_MAPPING

    if kind not in CONFIG_MAPPING:
        raise SourceError(f"transformers has no model type {kind!r}.", nearest(kind, CONFIG_MAPPING.keys()))
    cls = CONFIG_MAPPING[kind]
    allowed = set(cls().to_dict()) | set(getattr(cls, "attribute_map", {})) | {"num_labels"}
    allowed |= {IMAGE_SIZE} if "num_channels" in allowed else set()
    allowed |= {START} if "is_encoder_decoder" in allowed else set()
    allowed |= {LENGTH} if "conv_stride" in allowed else set()
    for key in values:
        if key not in allowed:
            raise SourceError(f"The {kind} configuration has no {key!r}.", nearest(key, allowed))
    check_sizes(values)
    try:
        with quiet():
            config = cls(**values)
    # transformers validates with a library that does not export its error types.
    except Exception as error:
        raise SourceError(
            f"The {kind} configuration is impossible: {first_line(error.__cause__ or error).rstrip('.')}.",
            "Correct its values.",
        ) from error
    config.architectures = config.architectures or []  # transformers iterates over it for types with two heads
    pad, size = getattr(config, "pad_token_id", None), getattr(config, "vocab_size", None)
    if "pad_token_id" not in values and isinstance(pad, int) and isinstance(size, int) and pad >= size:
        config.pad_token_id = 0  # the default padding token exceeds a smaller vocabulary
    return config


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text.lower() in ("none", "null"):
        return None
    if text.startswith(("[", "{")):
        with contextlib.suppress(ValueError):
            return json.loads(text)
    if text.startswith("["):
        return [_value(w) for w in text.strip("[]").split(",") if w]
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


# -- example inputs


def example_inputs(model: Any) -> dict[str, Any]:
    """Example keyword inputs of a transformers model; those with a leading "?" are only used if chosen by name.

    Batch 2 and length 16, since torch specialises sizes 0 and 1. Raises SourceError for unsupported inputs.
    """
    main = getattr(model, "main_input_name", "input_ids")
    if main == "pixel_values":
        return _image_inputs(model)
    if takes_sounds(model):
        return sound_inputs(model)
    if takes_pairs(model):
        return pair_inputs(model)
    if main == "input_ids" and getattr(model.config, "vocab_size", None):
        inputs = _text_inputs(model)
        return (
            inputs
            if _has_input(model, "attention_mask")
            else {k: v for k, v in inputs.items() if k != "attention_mask"}
        )
    kind = getattr(model.config, "model_type", type(model).__name__)
    reason = f"the configuration of {kind} has no vocab_size" if main == "input_ids" else f"{kind} takes {main!r}"
    raise SourceError(f"No example inputs can be made: {reason}.",
                      "Give a file.py:factory that returns (model, example inputs).")  # fmt: skip


def _has_input(model: Any, name: str) -> bool:
    """Whether a model's forward names an input; FNet and xLSTM would ignore a mask as an extra keyword."""
    return name in inspect.signature(model.forward).parameters


def _text_inputs(model: Any) -> dict[str, Any]:
    import torch

    config = model.config
    length = min(16, int(getattr(config, "max_position_embeddings", None) or 16))
    ids = torch.randint(0, config.vocab_size, (2, length))
    inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if getattr(config, "is_encoder_decoder", False):
        inputs |= {
            "decoder_input_ids": torch.randint(0, config.vocab_size, (2, length - 3)),
            "use_cache": False,
        }
    if getattr(config, "type_vocab_size", 0):
        inputs[f"{_pair_mark(model)}token_type_ids"] = torch.zeros_like(ids)
    labels = _labels(type(model).__name__, config, inputs)
    return inputs if labels is None else {**inputs, "?labels": labels}


def _pair_mark(model: Any) -> str:
    """Empty where questions and contexts have types of their own, so that the model is opened with them; else "?"."""
    several = "QuestionAnswering" in type(model).__name__ and int(model.config.type_vocab_size) > 1
    return "" if several and _has_input(model, "token_type_ids") else "?"


def _labels(cls: str, config: Any, inputs: dict[str, Any]) -> Any:
    import torch

    problem = getattr(config, "problem_type", None)
    if "Sequence" in cls and problem == "multi_label_classification":
        return torch.randint(0, 2, (2, int(config.num_labels))).float()
    if "Sequence" in cls and int(config.num_labels) == 1:
        return torch.randn(2)
    if "Sequence" in cls:
        return torch.randint(0, int(config.num_labels), (2,))
    if "TokenClass" in cls:
        return torch.randint(0, int(config.num_labels), inputs["input_ids"].shape)
    if "LM" in cls or "Conditional" in cls:
        return inputs.get("decoder_input_ids", inputs["input_ids"]).clone()
    return None


def _image_inputs(model: Any) -> dict[str, Any]:
    import torch

    config = model.config
    size = getattr(config, IMAGE_SIZE, None) or 224
    height, width = size if isinstance(size, list | tuple) else (size, size)
    channels = int(getattr(config, "num_channels", 3))
    inputs: dict[str, Any] = {"pixel_values": torch.randn(2, channels, int(height), int(width))}
    if "Segmentation" in type(model).__name__:  # whose loss ignores another label than tasks do
        return inputs
    return inputs | {"?labels": torch.randint(0, int(getattr(config, "num_labels", 2)), (2,))}
