"""Graphs shaped like transformers, of any size, without a model: for benchmarks and tests of the canvas."""

from __future__ import annotations

from espalier.model.graph.graph import Graph, Node, Ref
from espalier.model.graph.meta import TensorMeta
from espalier.model.graph.node import in_port

SHAPE = TensorMeta(("batch", "seq", 128), "float32")


class Maker:
    """Collects nodes in order."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}

    def add(self, op: str, group: str, *inputs: str, name: str = "", weight: tuple[int, ...] = ()) -> str:
        """A node of `op` in `group`; named ones are modules."""
        number = len(self.nodes)
        target = f"{group}.{name}" if name and group else name or f"aten.{op}.default"
        call = "placeholder" if op == "placeholder" else "output" if op == "output" else "call_function"
        call = "call_module" if name and call == "call_function" else call
        key = target.replace(".", "_") if name else f"{op}_{number}"
        ports = {in_port(i): SHAPE for i in range(len(inputs))}
        if weight:
            ports["weight"] = TensorMeta(weight, "float32")
        self.nodes[key] = Node(
            key,
            op,
            call,  # type: ignore[arg-type]
            target,
            args=tuple(Ref(i) for i in inputs),
            ports={**ports, "data_out": SHAPE},
            module_path=target if call == "call_module" else group,
        )
        return key


def transformer(size: int, mask: bool = False, heads: int = 1) -> Graph:
    """About `size` nodes: blocks of attention and MLP; `mask` feeds every head of every block."""
    m = Maker()
    ids = m.add("placeholder", "", name="input_ids")
    shared = m.add("placeholder", "", name="attention_mask") if mask else ""
    x = m.add("embedding", "model.embed", ids, name="word", weight=(30522, 128))
    p = m.add("embedding", "model.embed", ids, name="position", weight=(512, 128))
    x = m.add("add", "model.embed", x, p)
    block = 0
    while len(m.nodes) < size - 3:
        x = _block(m, f"model.layers.{block}", x, shared, heads)
        block += 1
    x = m.add("layer_norm", "model", x, name="norm", weight=(128,))
    x = m.add("linear", "", x, name="head", weight=(2, 128))
    m.add("output", "", x)
    return Graph(m.nodes, symbols={"batch": 2, "seq": 16})


def _block(m: Maker, path: str, x: str, mask: str, heads: int) -> str:
    attention, mlp = f"{path}.attention", f"{path}.mlp"
    norm = m.add("layer_norm", path, x, name="input_norm", weight=(128,))
    outs = [_head(m, attention, norm, mask, f"_{h}" if heads > 1 else "") for h in range(heads)]
    out = outs[0] if heads == 1 else m.add("cat", attention, *outs)
    out = m.add("linear", attention, out, name="out", weight=(128, 128))
    x = m.add("add", path, x, out)
    h = m.add("layer_norm", path, x, name="post_norm", weight=(128,))
    h = m.add("linear", mlp, h, name="up", weight=(512, 128))
    h = m.add("gelu", mlp, h)
    h = m.add("linear", mlp, h, name="down", weight=(128, 512))
    return m.add("add", path, x, h)


def _head(m: Maker, path: str, x: str, mask: str, suffix: str) -> str:
    parts = []
    for name in ("query", "key", "value"):
        y = m.add("linear", path, x, name=name + suffix, weight=(128, 128))
        parts.append(m.add("transpose", path, m.add("view", path, y)))
    scores = m.add("div", path, m.add("matmul", path, parts[0], parts[1]))
    if mask:
        scores = m.add("masked_fill", path, scores, mask)
    out = m.add("matmul", path, m.add("softmax", path, scores), parts[2])
    return m.add("reshape", path, m.add("transpose", path, out))
