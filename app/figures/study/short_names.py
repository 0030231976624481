"""Names of choices that people can read side by side: `enc 3 · attn.q` for bert_encoder_layer_3_attention_self_query.

Only what tells the choices of a study apart is written; the whole name stands where one points.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from espalier.passes.search.space import Choice

ON_NODES = ("format", "sparsity", "identity", "parallel")  # kinds that are called by their node
PORTS = ("weight", "bias", "data_in", "data_out", "sparsity", "identity", "products")
SHORT = {"attention": "attn", "encoder": "enc", "decoder": "dec", "embeddings": "emb", "embedding": "emb",
         "query": "q", "key": "k", "value": "v", "intermediate": "inter", "output": "out", "LayerNorm": "norm",
         "layernorm": "norm", "layers": "layer", "blocks": "block"}  # fmt: skip
STACKS = ("layer", "layers", "h", "block", "blocks")  # what the parts of a stack are called
FILLING = ("self", "dense", "module", "layer")  # tells nothing, unless two names differ by it alone
HALVES = ("encoder", "decoder")  # of one model: never the name of all
SDPA = "scaled_dot_product_attention"
LONGEST = 34  # letters of a name
DOT = " · "


@dataclass(frozen=True, slots=True)
class _Name:
    """A name in its parts: `lead` as people called an entry, the words of a path, the ports."""

    full: str
    lead: str
    words: tuple[str, ...]
    port: str

    @property
    def number(self) -> int | None:
        """Where the number of a layer stands among the words."""
        last = len(self.words) - 1
        return next((i for i, w in enumerate(self.words) if i and w.isdigit()
                     and (i < last or self.words[i - 1] in STACKS)), None)  # fmt: skip


def short_names(choices: Sequence[Choice]) -> dict[str, str]:
    """Each name in short, no two the same."""
    made: dict[str, str] = {}
    for kind in dict.fromkeys(c.kind for c in choices):
        names = [c.name for c in choices if c.kind == kind]
        made |= _of_nodes(names) if kind in ON_NODES else _without_shared(names)
    return _apart(made, lambda name: name)


def _of_nodes(names: Sequence[str]) -> dict[str, str]:
    parts = [_parted(n) for n in names]
    first = Counter(p.words[0] for p in parts if len(p.words) > 1 and p.words[0] not in HALVES).most_common(1)
    root = first[0][0] if first and 2 * first[0][1] > len(parts) and len(parts) > 1 else ""
    leads, ports = {p.lead for p in parts}, {p.port for p in parts}
    by_name = {p.full: p for p in parts}

    def told(part: _Name, short: bool) -> str:
        lead = part.lead if len(leads) > 1 else ""
        port = part.port if len(ports) > 1 else ""
        return DOT.join(w for w in (lead, *_path(part, root, short), port) if w)

    made = {p.full: told(p, True) for p in parts}
    made = _apart(made, lambda name: told(by_name[name], False))
    return {name: _cut(text) for name, text in made.items()}


def _apart(made: dict[str, str], longer: Callable[[str], str]) -> dict[str, str]:
    """With longer names for those that would be the same."""
    many = Counter(made.values())
    return {name: longer(name) if many[text] > 1 else text for name, text in made.items()}


def _parted(name: str) -> _Name:
    *lead, path = name.split(" ")
    port = ""
    if lead and _is_port(path):
        lead, path, port = lead[:-1], lead[-1], path
    elif _is_port(path.rpartition(".")[2]) and "." in path:
        path, _, port = path.rpartition(".")
    words = tuple(re.sub(rf"^{SDPA}", "sdpa", path).replace(".", "_").strip("_").split("_"))
    return _Name(name, " ".join(lead), words, port)


def _is_port(text: str) -> bool:
    return all(p in PORTS for p in text.split("+"))


def _path(part: _Name, root: str, short: bool) -> tuple[str, ...]:
    """(layer with its number, what in it)."""
    words, at = part.words, part.number
    begin = 1 if root and words[0] == root and len(words) > 1 and at != 1 else 0
    if at is None:
        return (_joined(words[begin:], short),)
    stack = [w for w in words[begin:at] if w not in STACKS] or [words[at - 1]]
    return f"{_joined(stack, short)} {words[at]}", _joined(words[at + 1 :], short)


def _joined(words: Sequence[str], short: bool) -> str:
    """Words with dots between them; single letters and numbers belong to their neighbour (`c_attn`, `ln_1`)."""
    found = [w for w in words if not short or w not in FILLING] or list(words)
    if short and len(found) > 2 and found[0] == found[-1] and len(found[1]) > 1:
        found = found[:-1]  # embeddings.word_embeddings
    text, last = "", len(found) - 1
    for i, word in enumerate(found):
        tight = word == "proj" or word.isdigit() or len(word) == 1 == last - i + 1 or len(found[i - 1]) == 1
        text += ("_" if tight else ".") * bool(text) + SHORT.get(word, word)
    return text


def _without_shared(names: Sequence[str]) -> dict[str, str]:
    """Without the parts that all begin or end with."""
    parts = [re.findall(r"[^.\s]+[.\s]*", n) for n in names]
    bare = [[p.strip(" .") for p in found] for found in parts]
    head, tail = 0, 0
    if len(parts) > 1:
        head = _shared(bare)
        tail = _shared([p[head:][::-1] for p in bare])
    texts = ["".join(p[head : len(p) - tail]).rstrip(" .") for p in parts]
    return dict(zip(names, map(_cut, texts), strict=True))


def _shared(parts: Sequence[Sequence[str]]) -> int:
    """How many parts all begin with; at least one is left of each."""
    most = min(map(len, parts)) - 1
    return next((i for i in range(most) if len({p[i] for p in parts}) > 1), max(most, 0))


def _cut(text: str) -> str:
    """Both ends of a long name: layers differ in the one or in the other."""
    half = LONGEST // 2
    return text if len(text) <= LONGEST else f"{text[: half - 1]}…{text[-half:]}"
