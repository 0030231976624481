"""Limits of a captured model, derived from its graph: positions, vocabulary, image size.

A table of positions is recognised by running the few nodes that compute its index at several lengths, so that offsets
(2 for RoBERTa) and saturating indices (relative positions) need no list of architectures.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from espalier.model.data.base import NEXT_TOKEN
from espalier.model.errors import EspalierError
from espalier.model.graph.graph import Graph, Node, Ref, named_weights
from espalier.model.graph.ops import floating
from espalier.model.graph.token_scores import token_scores_width
from espalier.model.sources.reading import Limits
from espalier.model.sources.sound_examples import SOUNDS
from espalier.model.symbols import evaluate

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.store.weights import WeightStore

SHORT, LONG = 3, 6  # tokens of the first two runs
FIRST, SECOND = 2, 3  # token ids of the runs that look for the vocabulary's table
LAST = -1  # stands for the last token of a target
MOST = 1 << 20  # tokens: larger tables are not tables of positions
ROOM = 1 << 24  # largest number of elements of a run's input
# Types that torch raises for sizes that do not fit.
FAULTS = (EspalierError, RuntimeError, LookupError, ArithmeticError, ValueError, TypeError, MemoryError)


def limits_of(graph: Graph, store: WeightStore) -> Limits:
    """The limits of a graph; runs only index computations, never the model."""
    token = token_input(graph)
    limits = Limits(image=_image(graph), width=_width(graph), channels=_channels(graph), signal=_signal(graph),
                    masked=any(n.target == "attention_mask" for n in graph.placeholders))  # fmt: skip
    if token is None or token.out is None or len(token.out.shape) != 2:
        return limits
    length = token.out.shape[1]
    if isinstance(length, int):
        limits, length = replace(limits, length=length), ""
    tables = _Tables(graph, store, token, length)
    sliced = list(_sliced(graph, length)) if length else []
    positions = [*sliced, *tables.positions(min(sliced, default=None))] if length else []
    task = NEXT_TOKEN if token_scores_width(graph) else ""
    return replace(limits, tokens=min(positions, default=None), vocabulary=tables.vocabulary(), task=task)


def token_input(graph: Graph) -> Node | None:
    """The input of token ids: `input_ids`, or the only integer input that is not a mask."""
    integer_inputs = [n for n in graph.placeholders if n.out is not None and n.out.dtype in ("int64", "int32")]
    by_name = [n for n in integer_inputs if n.target == "input_ids"]
    candidates = [n for n in integer_inputs if "mask" not in n.target and n.target != "labels"]
    return by_name[0] if by_name else candidates[0] if len(candidates) == 1 else None


def context_length(config: Any) -> int | None:
    """The context length of a transformers configuration with rotary positions, otherwise None."""
    inner = config.get_text_config() if hasattr(config, "get_text_config") else config
    rotary = any(
        name.startswith(("rope_", "rotary")) and value for name, value in getattr(inner, "__dict__", {}).items()
    )
    length = getattr(inner, "max_position_embeddings", None)
    return length if rotary and isinstance(length, int) and length >= SHORT else None


SEQ2SEQ = "seq2seq-lm"
AUDIO = "audio-classification"
HEADS = {
    "ForSequenceClassification": "sequence-classification", "ForTokenClassification": "token-classification",
    "ForQuestionAnswering": "question-answering", "ForMaskedLM": "masked-lm", "ForCausalLM": "causal-lm",
    "LMHeadModel": "causal-lm", "ForImageClassification": "image-classification",
    "ForAudioClassification": AUDIO, "CLIPModel": "contrastive", "SiglipModel": "contrastive",
    "ForSemanticSegmentation": "semantic-segmentation", "ForConditionalGeneration": SEQ2SEQ, "MTModel": SEQ2SEQ,
}  # fmt: skip


def head_of(model: Any) -> tuple[str, str]:
    """(head, problem type) of a transformers model; empty for others.

    Without a problem type one label is a regression, as transformers decides (`num_labels == 1`).
    """
    config, name = getattr(model, "config", None), type(model).__name__
    if config is None or not hasattr(config, "to_dict"):
        return "", ""
    head = next((head for end, head in HEADS.items() if name.endswith(end)), "")
    labels, problem = getattr(config, "num_labels", None), getattr(config, "problem_type", None)
    if head == SEQ2SEQ and not (getattr(config, "is_encoder_decoder", False) and _reads_texts(model)):
        return "", ""
    if head == "sequence-classification" and getattr(model, "main_input_name", "") in SOUNDS:
        head = AUDIO
    if head in ("sequence-classification", "image-classification", AUDIO):
        return head, str(problem or ("regression" if labels == 1 else ""))
    return head, ""


def _reads_texts(model: Any) -> bool:
    """Whether the main input are tokens, not sounds or images."""
    return getattr(model, "main_input_name", "") == "input_ids"


def start_of(model: Any) -> int | None:
    """The token with which a transformers decoder starts a target; LAST where it starts with the target's last token.

    Its own function is asked, which shifts labels to the right. None for other models.
    """
    import torch

    shift = getattr(model, "prepare_decoder_input_ids_from_labels", None)
    if shift is None or not head_of(model)[0]:
        start = getattr(getattr(model, "config", None), "decoder_start_token_id", None)
        return start if isinstance(start, int) and head_of(model)[0] == SEQ2SEQ else None
    first = [_first(shift, torch.tensor([[FIRST, SECOND, last]])) for last in (FIRST, SECOND)]
    return first[0] if first[0] == first[1] else LAST if first == [FIRST, SECOND] else None


def _first(shift: Any, labels: Tensor) -> int | None:
    try:
        return int(shift(labels=labels)[0, 0])
    # Configurations without tokens that a model's code expects.
    except (*FAULTS, AttributeError):
        return None


def architecture_of(model: Any) -> str:
    """The `model_type` of a model that is one of transformers' classes; empty for others."""
    own = type(model).__module__.startswith("transformers.")
    return str(getattr(getattr(model, "config", None), "model_type", "")) if own else ""


def _width(graph: Graph) -> int | None:
    """Numbers in a row of the first result that has one row a sample; 1 for a result without rows."""
    for ref in graph.output.inputs:
        shape = meta.shape if (meta := graph.nodes[ref.node].out) is not None and floating(meta) else ()
        if len(shape) == 2:
            return shape[1] if isinstance(shape[1], int) else None
        if len(shape) == 1:
            return 1
    return None


def _channels(graph: Graph) -> int | None:
    """Channels of the first result that is a map of pixels, [samples, channels, height, width]."""
    for ref in graph.output.inputs:
        shape = meta.shape if (meta := graph.nodes[ref.node].out) is not None and floating(meta) else ()
        if len(shape) == 4:
            return shape[1] if isinstance(shape[1], int) else None
    return None


def _image(graph: Graph) -> tuple[int, int, int] | None:
    """Channels, height and width of the only input if it is an image; 0 for a dynamic size."""
    inputs = [n.out for n in graph.placeholders if n.out is not None and n.target != "labels"]
    if len(inputs) != 1 or len(inputs[0].shape) != 4:
        return None
    channels, height, width = (size if isinstance(size, int) else 0 for size in inputs[0].shape[1:])
    return channels, height, width


def _signal(graph: Graph) -> tuple[int, ...] | None:
    """The shape of a sample of the only floating-point input; 0 for a dynamic size."""
    inputs = [n.out for n in graph.placeholders if n.out is not None and floating(n.out) and n.target != "labels"]
    if len(inputs) != 1 or len(inputs[0].shape) < 2:
        return None
    return tuple(size if isinstance(size, int) else 0 for size in inputs[0].shape[1:])


def _sliced(graph: Graph, symbol: str) -> Iterator[int]:
    """The longest text that fits each slice of a table of fixed size."""
    for node in graph:
        operand, result = node.ports.get("data_in"), node.out
        if node.op != "slice" or operand is None or result is None or len(operand.shape) != len(result.shape):
            continue
        for size, target in zip(operand.shape, result.shape, strict=True):
            offset = _offset(target, symbol) if isinstance(size, int) and isinstance(target, str) else None
            if offset is not None and isinstance(size, int):
                yield size - offset


def _offset(size: str, symbol: str) -> int | None:
    """The constant in a size such as `seq + 2`; None for other sizes."""
    try:
        short, long = (evaluate(size, {symbol: n}) for n in (SHORT, LONG))
    except (LookupError, ArithmeticError, ValueError):
        return None
    return short - SHORT if long - short == LONG - SHORT else None


class _Tables:
    """The embeddings of a graph, and their indices for a text of a given length."""

    def __init__(self, graph: Graph, store: WeightStore, token: Node, symbol: str) -> None:
        self.graph, self.token, self.symbol = graph, token, symbol
        embeddings = [(n, ref) for n in graph if n.op == "embedding" and (ref := _index(n)) is not None]
        self.rows = [int(n.ports["weight"].shape[0]) for n, _ in embeddings]
        self.module: Any = None
        if embeddings and graph.runs == "graph":
            self.module = _module(graph, [ref for _, ref in embeddings], store)

    def positions(self, bound: int | None) -> Iterator[int]:
        """The lengths at which tables of positions end, below the given `bound`."""
        if bound is not None and bound < LONG:
            return
        short, long = self._run(SHORT), self._run(LONG)
        for at, rows in enumerate(self.rows if short and long else ()):
            if int(long[at].max() - short[at].max()) != LONG - SHORT:
                continue
            last = rows - int(short[at].max()) + SHORT - 1
            if LONG <= last < (bound or MOST) and self._ends(at, rows, last):
                yield last

    def vocabulary(self) -> int | None:
        """Rows of the smallest table whose index is the token itself."""
        first, second = self._run(SHORT, FIRST), self._run(SHORT, SECOND)
        if not first or not second:
            return None
        is_token = [bool((a == FIRST).all() and (b == SECOND).all()) for a, b in zip(first, second, strict=True)]
        return min((rows for rows, yes in zip(self.rows, is_token, strict=True) if yes), default=None)

    def _ends(self, at: int, rows: int, length: int) -> bool:
        """Whether the index exceeds the table one token after `length`; a saturating index does not."""
        full, longer = self._run(length), self._run(length + 1)
        return bool(full) and int(full[at].max()) < rows and (not longer or int(longer[at].max()) >= rows)

    def _run(self, length: int, token: int = FIRST) -> list[Tensor]:
        """Each table's index for texts of a repeated token; empty if the nodes cannot run at that length."""
        import torch

        if self.module is None:
            return []
        symbols = {**self.graph.symbols, **({self.symbol: length} if self.symbol else {})}
        tensor_inputs = [n for n in self.graph.placeholders if n.out is not None]
        try:
            inputs = {n.target: self._value(n, symbols, token) for n in tensor_inputs}
            with torch.no_grad():
                return list(self.module(**inputs))
        except FAULTS:
            return []

    def _value(self, node: Node, symbols: dict[str, int], token: int) -> Tensor:
        import torch

        assert node.out is not None
        sizes, fill = node.out.sizes(symbols), token if node is self.token else int("mask" in node.target)
        if math.prod(sizes) > ROOM:
            raise ValueError("an input too large to try")
        return torch.full(sizes, fill, dtype=getattr(torch, node.out.dtype))


def _index(node: Node) -> Ref | None:
    """The source of an embedding's index; None for a table of unknown size."""
    position = 0 if node.call == "call_module" else 1
    ref = node.args[position] if len(node.args) > position else None
    shape = node.ports["weight"].shape if "weight" in node.ports else ()
    sized = bool(shape) and isinstance(shape[0], int)
    return ref if isinstance(ref, Ref) and sized else None


def _subgraph(graph: Graph, ends: list[Ref]) -> Graph:
    """The subgraph that computes `ends`, with all inputs."""
    needed = graph.feeding(*(ref.node for ref in ends))
    output = replace(graph.output, args=tuple(ends), kwargs={})
    selected = [n for n in graph if n.id in needed or n.call == "placeholder"]
    nodes = {n.id: n for n in (*selected, output)}
    return replace(graph, nodes=nodes, weights=named_weights(nodes.values(), graph.weights), structure="tuple",
                   output_names=())  # fmt: skip


def _module(graph: Graph, ends: list[Ref], store: WeightStore) -> Any:
    from espalier.model.torch.build import build

    try:
        return build(_subgraph(graph, ends), store)
    except FAULTS:  # opaque functions or a model without weights: no limits are known
        return None
