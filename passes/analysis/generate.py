"""Continues a text with a language model, or writes a target of a source, token by token beside the baseline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from espalier.model.errors import DataError, GraphError
from espalier.model.graph.graph import Graph
from espalier.model.graph.token_scores import token_scores_width
from espalier.passes.base import Context, Report, Row, analysis
from espalier.passes.figure import OPENED
from espalier.passes.running.batches import batches, fit_error
from espalier.passes.running.task_check import check_task
from espalier.passes.tasks.next_token import token_scores

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.data.base import Inputs, Split
    from espalier.model.data.tokens import Codec

LEAST = 1e-3  # temperature below which the most probable token is taken
MOST = 4096  # new tokens
Scores = Callable[[list[int]], "Tensor"]  # tokens so far → float64 [vocabulary], of the next one


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """The text to continue, and how tokens are drawn. The seed of the step draws."""

    prompt: str = field(
        default="", metadata={"help": "the text to continue; for encoder–decoder models the source", "required": True}
    )
    new_tokens: int = field(default=32, metadata={"min": 1, "max": MOST, "help": "maximum number of new tokens"})
    temperature: float = field(
        default=0.0, metadata={"min": 0.0, "max": 10.0, "help": "0 takes the most probable token; higher draws freely"}
    )
    top_k: int = field(default=0, metadata={"min": 0, "help": "draw among so many most probable tokens; 0 = all"})
    tokenizer: str = field(default="", metadata={"help": "folder of the tokenizer; default: the source's"})
    kv_cache: bool = field(default=True, metadata={"help": "keep keys and values, so that a step runs one token"})
    baseline: str = field(default=OPENED, metadata={"help": "name of the baseline graph"})
    AGAINST_BASE: ClassVar[bool] = True


@analysis("generate", "Generate text", GenerateOptions)
def generate(graph: Graph, options: GenerateOptions, context: Context) -> tuple[Graph, Report]:
    """Continuations of a text by the model and by its baseline, with a row per token.

    Both draw with the same random numbers. `kl` of a row is the divergence of the model's next-token distribution from
    the baseline's, in nats, both after the text that the model has written. A step runs one token over the keys and
    values of those before, if the scores of the prompt then equal those of a run over all of it; else the whole text.
    An encoder–decoder model writes a target of the prompt; the encoder runs once, the whole target at each step.
    """
    from espalier.passes.running.generation_settings import codec_of, settings_note
    from espalier.passes.running.target_decoding import decodes_targets, room_of

    targets = decodes_targets(graph)
    if not targets and not token_scores_width(graph):
        raise GraphError("The model gives no scores of tokens, so it continues no text.", "Open a language model.")
    tokenizer = options.tokenizer or context.reading.tokenizer
    if not tokenizer:
        raise DataError("The model has no tokenizer.", "Name one in the options.")
    codec = codec_of(context, tokenizer)
    if targets:
        return graph, _target(graph, options, context, codec, tokenizer)
    prompt = codec.encode(options.prompt)
    if not prompt:
        raise DataError("The prompt has no tokens.", "Give a longer text.")
    room = room_of(context) - len(prompt)
    if room < 1:
        text = f"The prompt has {len(prompt)} tokens; the model takes {room_of(context)}."
        raise DataError(text, "Give a shorter text.")
    check_task(graph, _window(_run_of(prompt)), context)
    writer = _Writer(options, codec, context, min(options.new_tokens, room))
    other = _other(graph, context)
    base = None if other is None else _scores(other, writer, prompt)[0]
    scores, cached = _scores(graph, writer, prompt)
    facts = {"prompt_tokens": len(prompt), "cached": cached, **settings_note(context, greedy=writer.greedy)}
    return graph, _report(writer, scores, base, prompt, facts)


def _other(graph: Graph, context: Context) -> Graph | None:
    """The baseline, if it is another graph."""
    return None if context.base is graph else context.base


def _target(graph: Graph, options: GenerateOptions, context: Context, codec: Codec, tokenizer: str) -> Report:
    """The target of a source, from the token with which the decoder starts."""
    from espalier.model.data.tokens import open_tokenizer
    from espalier.passes.running.generation_settings import forced_first, settings_note
    from espalier.passes.running.target_decoding import room_of, start_token

    room = room_of(context)
    source, lengths = open_tokenizer(tokenizer)([options.prompt], room)
    if (count := int(lengths[0])) > room:
        raise DataError(f"The prompt has {count} tokens; the model takes {room}.", "Give a shorter text.")
    if not count:
        raise DataError("The prompt has no tokens.", "Give a longer text.")
    start = start_token(context, tokenizer)
    writer = _Writer(options, codec, context, min(options.new_tokens, room), forced_first(context))
    other = _other(graph, context)
    base = None if other is None else _of_source(other, source, context)
    report = _report(writer, _of_source(graph, source, context), base, [start], {"prompt_tokens": count})
    whole = {name: report.summary[name].strip() for name in ("text", "baseline_text")}
    facts = {"cached": False, **settings_note(context, greedy=writer.greedy)}
    return replace(report, summary=report.summary | whole | facts)


def _of_source(graph: Graph, source: Inputs, context: Context) -> Scores:
    import torch

    from espalier.passes.running.target_decoding import TargetDecoder

    decoder = TargetDecoder(graph, context, source)
    return lambda tokens: decoder.scores(torch.tensor([tokens]))[0].double()


def _report(writer: _Writer, scores: Scores, base: Scores | None, before: list[int], facts: dict[str, Any]) -> Report:
    """Both texts after the tokens `before`."""
    mine, steps = writer.written(scores, before, base)
    theirs = mine if base is None else writer.written(base, before)[0]
    summary = _summary(writer.codec, writer.options, before, mine, theirs, [kl for _, kl in steps])
    return Report("generate", tuple(writer.rows(mine, theirs, steps)), summary | facts)


def _summary(
    codec: Codec, options: GenerateOptions, before: list[int], mine: list[int], theirs: list[int], kl: list[float]
) -> dict[str, Any]:
    same = next((i for i, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs)))
    # Decoded with what is before: a token may begin with a space that is left out at the start of a text.
    start = len(codec.decode(before))
    text, other = (codec.decode([*before, *tokens])[start:] for tokens in (mine, theirs))
    return {"text": text, "baseline_text": other, "baseline": options.baseline,
            "tokens": len(mine), "same_tokens": same, "kl": sum(kl) / max(len(kl), 1)}  # fmt: skip


def _window(tokens: list[int]) -> Split:
    import numpy as np

    from espalier.model.data.base import Split

    ids = np.array([tokens], np.int64)
    return Split({"input_ids": ids, "attention_mask": np.ones_like(ids)}, np.zeros_like(ids))


def _run_of(tokens: list[int]) -> list[int]:
    """The tokens, one of them twice: graphs are traced for two or more, and what follows changes no earlier score."""
    return tokens * 2 if len(tokens) == 1 else tokens


def _scores(graph: Graph, writer: _Writer, prompt: list[int]) -> tuple[Scores, bool]:
    """(a function from the tokens so far to the scores of the next, whether it runs new tokens alone)."""
    from espalier.passes.running.cached_decoding import CachedDecoder, agree

    whole, context = _whole(graph, writer.context), writer.context
    if not writer.options.kv_cache or len(prompt) < 2:  # what is kept is checked at two lengths
        return whole, False
    try:
        decoder = CachedDecoder(graph, context, len(prompt) + writer.most)
        first = decoder.scores(prompt[:-1]), decoder.scores(prompt)
    except (GraphError, RuntimeError, IndexError, TypeError, ValueError):  # of operations that need the whole text
        return whole, False
    same = all(agree(a, whole(b)) for a, b in zip(first, (prompt[:-1], prompt), strict=True))
    return (decoder.scores, True) if same else (whole, False)


def _whole(graph: Graph, context: Context) -> Scores:
    """A function that runs the whole text."""
    import torch

    from espalier.model.torch.build import build
    from espalier.model.torch.in_place import in_place

    module = build(graph, context.store, context.callables, packed=True)

    def scores(tokens: list[int]) -> Tensor:
        inputs, _ = next(batches(_window(_run_of(tokens)), graph, 1))
        with fit_error(inputs, graph), in_place(module), torch.no_grad():
            found = token_scores(module(**inputs))
        assert found is not None
        return found[0, 0 if len(tokens) == 1 else -1].double()

    return scores


class _Writer:
    """Draws continuations, always with the same random numbers.

    `forced`: the first token, whatever its score. At the length limit the last one may be forced, too.
    """

    def __init__(
        self, options: GenerateOptions, codec: Codec, context: Context, most: int, forced: int | None = None
    ) -> None:
        from espalier.passes.running.generation_settings import forced_last

        self.options, self.codec, self.context, self.most = options, codec, context, most
        self._forced, self._last = forced, forced_last(context)

    @property
    def greedy(self) -> bool:
        """Whether the most probable token is taken."""
        return self.options.temperature < LEAST

    def written(
        self, scores: Scores, prompt: list[int], base: Scores | None = None
    ) -> tuple[list[int], list[tuple[float, float]]]:
        """(new tokens, probability and divergence from `base` of each); ends after a token that ends texts.

        The divergence is KL(base ‖ model) in nats after the same text, 0 without `base`; both before temperature.
        """
        import torch

        drawn, steps, random = (
            list[int](),
            list[tuple[float, float]](),
            torch.Generator().manual_seed(self.context.seed),
        )
        while len(drawn) < self.most and not (drawn and drawn[-1] in self.codec.ends):
            logs = scores(prompt + drawn).log_softmax(-1)
            other = logs if base is None else base(prompt + drawn).log_softmax(-1)
            forced = None if drawn else self._forced
            forced = self._last if self._last is not None and len(drawn) == self.most - 1 else forced
            drawn.append(self._next(logs, random) if forced is None else forced)
            kl = max(float((other.exp() * (other - logs)).sum()), 0.0)
            steps.append((float(logs[drawn[-1]].exp()), kl))
            self.context.progress(len(drawn), self.most, "writing")
        return drawn, steps

    def _next(self, logs: Tensor, random: Any) -> int:
        import torch

        options = self.options
        if self.greedy:
            return int(logs.argmax())
        if options.top_k:
            least = logs.topk(min(options.top_k, len(logs))).values[-1]
            logs = logs.masked_fill(logs < least, -torch.inf)
        sums = (logs / options.temperature).softmax(-1).cumsum(-1)
        at = torch.rand((), dtype=torch.float64, generator=random) * sums[-1]
        return min(int(torch.searchsorted(sums, at, right=True)), len(sums) - 1)

    def rows(self, mine: list[int], theirs: list[int], steps: list[tuple[float, float]]) -> list[Row]:
        """A row for each token of the model; the baseline's own token of that step beside it."""
        return [
            {"step": at + 1, "token": self.codec.decode([token]), "probability": steps[at][0],
             "baseline": self.codec.decode([theirs[at]]) if at < len(theirs) else "", "kl": steps[at][1]}
            for at, token in enumerate(mine)
        ]  # fmt: skip
