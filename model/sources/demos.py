"""The models included with Espalier, which need no download."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from espalier.model.errors import SourceError

if TYPE_CHECKING:
    from torch import Tensor, nn

RESOURCES = Path(__file__).resolve().parents[2] / "resources" / "demos"
BATCH = 2  # samples in the example inputs


@dataclass(frozen=True, slots=True)
class Demo:
    """A built-in model. data: its training data; make: the untrained module, in train mode."""

    name: str
    title: str
    description: str
    data: str
    make: Callable[[], nn.Module]

    @property
    def folder(self) -> Path:
        """The folder of the weights (`model.safetensors`) and `card.json`."""
        return RESOURCES / self.name

    def inputs(self) -> dict[str, Tensor]:
        """Keyword arguments of the model's forward: BATCH real samples of the validation split."""
        return self._sample(labels=False)

    def labelled(self) -> dict[str, Tensor]:
        """The same samples with their labels, as the model's forward takes them."""
        return self._sample(labels=True)

    def _sample(self, labels: bool) -> dict[str, Tensor]:
        import torch

        from espalier.model.data.base import NEXT_TOKEN
        from espalier.model.data.loading import load_data

        data = load_data(self.data, limit=BATCH, splits=("validation",))
        sample = data.split("validation")
        shifted = sample.inputs["input_ids"] if data.task == NEXT_TOKEN else sample.labels  # language models shift them
        label_input = {"labels": shifted} if labels else {}
        return {name: torch.from_numpy(array) for name, array in {**sample.inputs, **label_input}.items()}


def load_demo(name: str) -> tuple[nn.Module, dict[str, Tensor]]:
    """The trained model in eval mode, and example keyword arguments of batch 2.

    Raises SourceError for an unknown name, or if the weights are missing.
    """
    from safetensors.torch import load_file

    demo = find_demo(name)
    path = demo.folder / "model.safetensors"
    if not path.is_file():
        raise SourceError(f"The weights of demo:{name} are missing ({path}).", "Run `make demo-weights`.")
    module = demo.make()
    tied: dict[str, str] = getattr(module, "all_tied_weights_keys", {})
    found = module.load_state_dict(load_file(path), strict=not tied)
    assert {*found.missing_keys, *found.unexpected_keys} <= tied.keys()
    return module.eval(), demo.inputs()


def find_demo(name: str) -> Demo:
    """The demo of this name. Raises SourceError with all names if it is unknown."""
    if name not in DEMOS:
        raise SourceError(f"There is no demo {name!r}.", f"There are: {', '.join(DEMOS)}.")
    return DEMOS[name]


def _reviews() -> nn.Module:
    from transformers import BertConfig, BertForSequenceClassification

    return BertForSequenceClassification(BertConfig.from_json_file(RESOURCES / "reviews" / "config.json"))


def _stories() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig.from_json_file(RESOURCES / "stories" / "config.json"))


def _digits() -> nn.Module:
    from espalier.model.data.digit_networks import DigitsCNN

    return DigitsCNN()


def _digits_mlp() -> nn.Module:
    from espalier.model.data.digit_networks import DigitsMLP

    return DigitsMLP()


DEMOS = {
    demo.name: demo
    for demo in (
        Demo(
            "reviews",
            "Reviews (BERT-tiny)",
            "Is a made review positive? A two-layer BERT that has to read negation, contrast and intensity.",
            "demo:reviews",
            _reviews,
        ),
        Demo(
            "stories",
            "Stories (Llama-tiny)",
            "What is the next word? A three-layer Llama that has to remember names, things and numbers of a story.",
            "demo:stories",
            _stories,
        ),
        Demo(
            "digits",
            "Digits (CNN)",
            "Which digit is it? Three convolutions with batch normalisation on real 8×8 handwriting.",
            "demo:digits",
            _digits,
        ),
        Demo(
            "digits-mlp",
            "Digits (MLP)",
            "The same digits with three linear layers (64-64-32-10), small enough for any FPGA.",
            "demo:digits",
            _digits_mlp,
        ),
    )
}
