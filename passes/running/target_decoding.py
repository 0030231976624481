"""Decoding with an encoder–decoder model: the tokens of targets one after the other, from sources.

What does not depend on the target, such as the encoder, is computed once. Keys and values of targets are not kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx

from espalier.model.data.base import DECODER
from espalier.model.data.text_pairs import LAST, decoder_start
from espalier.model.errors import DataError, GraphError
from espalier.model.graph.graph import Graph
from espalier.model.torch.build import build
from espalier.passes.running.batches import fit_error
from espalier.passes.tasks.scores import token_scores

if TYPE_CHECKING:
    from collections.abc import Mapping

    from espalier.model.data.base import Array
    from espalier.passes.base import Context

IDS, MASK = f"{DECODER}input_ids", f"{DECODER}attention_mask"
LEAST = 2  # positions of a target that captured models take at least


def decodes_targets(graph: Graph) -> bool:
    """Whether the model reads a target beside a source."""
    return any(node.target == IDS for node in graph.placeholders)


def start_token(context: Context, tokenizer: str) -> int:
    """The token before the first of a target that the model writes; raises DataError if it is unknown."""
    limits = context.reading.limits
    start = None if limits is None else limits.start
    if start is None:
        raise DataError("It is unknown with which token the model's decoder starts.",
                        "Use an encoder–decoder model of transformers.")  # fmt: skip
    if limits is not None and limits.first is not None:
        return limits.first
    return decoder_start(tokenizer) if start == LAST else start


def room_of(context: Context) -> int:
    """The tokens that the model takes; raises GraphError if it takes one length alone."""
    limits = context.reading.limits
    if limits is not None and limits.length is not None:
        raise GraphError(f"The model was captured with texts of {limits.length} tokens alone.",
                         "Open it so that the length is dynamic.")  # fmt: skip
    known = [] if limits is None else [n for n in (limits.tokens, limits.context) if n]
    return min(known, default=1 << 20)


class TargetDecoder:
    """Scores of the next token of targets, of the sources `inputs` (int64 [n, seq], by name).

    Raises DataError if the model needs other inputs.
    """

    def __init__(self, graph: Graph, context: Context, inputs: Mapping[str, Array], module: Any = None) -> None:
        self.module: Any = module or build(graph, context.store, context.callables, packed=True)
        names = {node.target for node in graph.placeholders}
        self._sources = {k: torch.from_numpy(v) for k, v in inputs.items() if k in names and not k.startswith(DECODER)}
        self._masked = MASK in names
        others = [str(n) for n in names if n not in (IDS, MASK)]
        if "input_ids" not in self._sources:  # its own default would be None
            raise DataError(f"The model reads {', '.join(sorted(others))}, not the tokens of a text.",
                            "Open an encoder–decoder model of texts.")  # fmt: skip
        self._run = _Keeping(self.module)

    def scores(self, targets: Tensor) -> Tensor:
        """[n, vocabulary] of the token after `targets`, int64 [n, tokens], which begin with the start token."""
        count = targets.shape[1]
        # A later token changes no score of a causal decoder.
        filled = torch.nn.functional.pad(targets, (0, max(LEAST - count, 0)))
        given = {**self._sources, IDS: filled}
        if self._masked:
            given[MASK] = (torch.arange(filled.shape[1]) < count).long().expand_as(filled)
        with fit_error(given), torch.no_grad():
            found = token_scores(self._run.result(given))
        if found is None or found.shape[1] != filled.shape[1]:
            raise GraphError("The model gives no scores of each token of a target.",
                             "Open it with the head seq2seq-lm.")  # fmt: skip
        return found[:, count - 1]


class _Keeping(fx.Interpreter):
    """Runs a module again and again; what does not depend on the target runs once."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        depends, needed = set[fx.Node](), set[fx.Node]()
        for node in module.graph.nodes:
            if node.op == "placeholder":
                changes = node.target in (IDS, MASK)
            else:
                changes = any(n in depends for n in node.all_input_nodes) or node.op == "output"
            if changes:
                depends.add(node)
                needed.update(n for n in node.all_input_nodes if n not in depends)
        self._fixed = {n for n in module.graph.nodes if n not in depends}
        self._needed = needed
        self._given: Mapping[str, Tensor] = {}
        self._kept: dict[fx.Node, Any] = {}
        self._again = False

    def result(self, given: Mapping[str, Tensor]) -> Any:
        """The module's result of inputs by name."""
        self._given = given
        result = self.run()
        self._again = True
        return result

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The input of that name, or its default."""
        return self._given[target] if target in self._given else args[0]

    def run_node(self, n: fx.Node) -> Any:
        """The value of a node, kept if it does not depend on the target."""
        if self._again and n in self._fixed:
            return self._kept.get(n)
        value = super().run_node(n)
        if n in self._needed:
            self._kept[n] = value
        return value
