"""Preprocessing facts of a model's data, and the limits of the model; stored with a project's source.

Imports no torch: the window's forms and project files use these values too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a model's inputs; None, or 0 in `image`, if there is none.

    tokens: maximum tokens of a text, from the model's table of positions. context: the context length in its
    configuration, if positions are computed and unlimited. length: the fixed length of all texts.
    vocabulary: rows of the token embedding. image: channels, height and width. task: what the outputs predict,
    "next-token" if there is a score of each token of the vocabulary at each position; empty if unknown. head: of
    transformers, such as "token-classification"; problem: the `problem_type` of its configuration; empty if unknown.
    width: outputs of a sample, if the model gives one row a sample. architecture: the `model_type` of its transformers
    configuration; empty for a model that is none of transformers' classes, None if unknown. channels: of a result that
    is a map of pixels, if there is one. start: the token with which the decoder starts a target, −1 for the
    target's own last token; None without one. first: the token with which the model itself starts to write a target, if
    its generation settings name one; forced: the token that must follow; last: that which the
    last token must be at the length limit. ends: tokens that end the texts that it
    writes; generation: settings that are not applied. signal: the shape of a sample of the only input of numbers, 0
    for a dynamic size. masked: whether there is an attention mask.
    """

    tokens: int | None = None
    context: int | None = None
    length: int | None = None
    vocabulary: int | None = None
    image: tuple[int, int, int] | None = None
    task: str = ""
    head: str = ""
    problem: str = ""
    width: int | None = None
    architecture: str | None = None
    channels: int | None = None
    start: int | None = None
    first: int | None = None
    forced: int | None = None
    last: int | None = None
    ends: tuple[int, ...] = ()
    generation: tuple[str, ...] = ()
    signal: tuple[int, ...] | None = None
    masked: bool = False

    @property
    def pixel_classes(self) -> int | None:
        """Classes of a pixel; one channel is the logit of the second of two."""
        return None if self.channels is None else max(self.channels, 2)


@dataclass(frozen=True, slots=True)
class Reading:
    """The reading of a project's data. text, label: columns, used if the data have them.

    classes: the names of the model's classes, in its order. limits: None in projects of earlier versions.
    """

    tokenizer: str | None = None
    text: str = ""
    label: str = ""
    classes: tuple[str, ...] = ()
    limits: Limits | None = None


PLAIN = Reading()
