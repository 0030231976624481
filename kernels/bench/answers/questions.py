"""The questions and their answers: text, formulas, sources."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from espalier.kernels.bench.spec import KernelError
from espalier.model.errors import nearest

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True)
class Link:
    """A reference with its address."""

    text: str
    url: str


@dataclass(frozen=True, slots=True)
class Source:
    """A function of this repository: its file from the root, and its name."""

    file: str
    name: str

    @property
    def text(self) -> str:
        """Its source text, with decorators; the file is parsed, not executed."""
        source = (ROOT / self.file).read_text(encoding="utf-8")
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef) and node.name == self.name:
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                return "\n".join(source.splitlines()[first - 1 : node.end_lineno])
        raise KernelError(f"{self.file} has no function {self.name}.", "Install Espalier anew.")


@dataclass(frozen=True, slots=True)
class Question:
    """A question; `name`: its short title. `text`: paragraphs; `formulas`: lines; `measures`: what its button
    measures."""

    key: str
    name: str
    title: str
    text: tuple[str, ...]
    formulas: tuple[str, ...]
    measures: str
    links: tuple[Link, ...]
    sources: tuple[Source, ...]


QUESTIONS: tuple[Question, ...] = (
    Question(
        "compile",
        "torch.compile",
        "What does torch.compile cost, and when does it pay?",
        (
            "The first call traces the function, generates code and runs a C++ or Triton compiler: seconds. Later"
            " calls only check that the code still applies (guards) and enter it.",
            "A large chain of elementwise operations gains: fused, it reads and writes memory once instead of at "
            "each operation. A small layer has little to fuse; where its operations take microseconds, guards and"
            " the entry can cost more than they save, so on a CPU it may be slower for ever.",
        ),
        ("break-even = (first compiled − first eager) / (eager − compiled) calls",),
        "compiles a small layer and a large chain: about half a minute",
        (Link("torch.compile", "https://docs.pytorch.org/docs/stable/generated/torch.compile.html"),
         Link("PyTorch 2 (Ansel et al. 2024)", "https://doi.org/10.1145/3620665.3640366")),
        (Source("kernels/bench/answers/measure.py", "layer"), Source("kernels/bench/answers/measure.py", "chain")),
    ),
    Question(
        "softmax",
        "Naive and fused softmax",
        "Why is a fused softmax faster than a naive one?",
        (
            "Neither computes more than the other. Op by op, each of five operations brings its operands from "
            "memory and takes its result back. Fused, a row stays in registers or caches between them.",
        ),
        ("naive reads 5MN + 2M elements, writes 3MN + 2M", "fused reads MN, writes MN",
         "yᵢ = exp(xᵢ − max x) / Σⱼ exp(xⱼ − max x)"),
        "times both on a matrix beyond the caches: some seconds",
        (Link("Triton: fused softmax", "https://triton-lang.org/main/getting-started/tutorials/02-fused-softmax.html"),),
        (Source("kernels/lab/softmax.py", "naive"), Source("kernels/lab/softmax.py", "_rows")),
    ),
    Question(
        "attention",
        "Attention over tokens",
        "What does fused attention save over tokens?",
        (
            "Every token meets every other: s² scores for each head. The naive way writes that matrix, and reads "
            "and writes it again for the scale and the softmax; its memory grows with the square of the tokens.",
            "Fused, a block of queries goes along the keys. The softmax grows with them (online): where a block "
            "holds a larger score, what was summed so far is multiplied by exp(old − new). No score ever reaches "
            "memory.",
        ),
        ("scores: b·h·s² elements; fused: b·h·s·d", "m′ = max(m, max block), l′ = l·exp(m − m′) + Σ exp(score − m′)"),
        "times both over several lengths, and their memory: half a minute",
        (Link("FlashAttention (Dao et al. 2022)", "https://arxiv.org/abs/2205.14135"),
         Link("Online normalizer (Milakov, Gimelshein 2018)", "https://arxiv.org/abs/1805.02867")),
        (Source("kernels/lab/attention.py", "naive"), Source("kernels/lab/attention.py", "_span")),
    ),
    Question(
        "mxint8",
        "MXINT8 to bfloat16",
        "How does an MXINT8 code become a float?",
        (
            "A code m has a sign, one integer bit (bit 6 of |m|) and six bits of fraction; 32 of them share a "
            "byte s. A bfloat16 has the same parts in another order: sign, exponent, fraction. So they are put "
            "together by shifts alone. But a float implies a one before its fraction. Where bit 6 is set that one"
            " is real (dont_need_abs); where not, the float with the same sign and exponent and no fraction "
            "(bias) is taken off.",
        ),
        ("y = m/64·2^(s − 127)", "built = sign · s · (|m| & 63) « 1", "y = built, or built − bias where bit 6 is 0"),
        "times the ways from codes to floats: some seconds",
        (Link("OCP Microscaling Formats 1.0",
              "https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf"),),
        (Source("kernels/lab/mx_dequantize.py", "_bits8"), Source("kernels/lab/mx_dequantize.py", "_values8")),
    ),
    Question(
        "tiles",
        "Tiles and threads",
        "How is a tensor shared out among tiles and threads?",
        (
            "A GPU runs a block of threads for each tile (cta_tiler). The layout of threads (layout_sX) lies on "
            "the tile like a stamp: each thread takes the element below it, then the stamp moves on. Memory gives"
            " sectors of 32 bytes: where neighbouring threads read neighbouring elements few sectors serve a "
            "warp; down a column each thread needs one of its own. A CPU feels the same with its cache lines, "
            "which is what is timed here.",
        ),
        ("element of thread t: (r(t) + i·thread rows, c(t) + j·thread columns)",),
        "copies a matrix along rows and down columns: a few seconds",
        (Link("CuTe: layouts", "https://docs.nvidia.com/cutlass/latest/media/docs/cpp/cute/01_layout.html"),
         Link("CuTe: tensors and partitioning",
              "https://docs.nvidia.com/cutlass/latest/media/docs/cpp/cute/03_tensor.html")),
        (Source("kernels/lab/mx_dequantize.py", "_place"),),
    ),
    Question(
        "memory",
        "Memory ledger",
        "How much memory do 8 bits save in fact?",
        (
            "A code of 8 bits and a 32nd of a byte of exponent are 8.25 bits: 74.2 % less than float32. The "
            "figure 86.7 % that is sometimes read belongs to 4 bits (4.25).",
            "A whole model saves less: embeddings, norms and biases stay in float, a layer's values exist for a "
            "moment while it is multiplied, and allocators round up. The lines of a model stand below where one is "
            "open, or is named with --model.",
        ),
        ("1 − (8 + 8/32)/32 = 74.2 %", "1 − (4 + 8/32)/32 = 86.7 %"),
        "packs a weight, and runs the open model once",
        (Link("OCP Microscaling Formats 1.0",
              "https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf"),),
        (Source("kernels/bench/answers/lines.py", "saving"),),
    ),
    Question(
        "roofline",
        "Roofline",
        "What bounds a kernel: bandwidth or operations?",
        (
            "A kernel must move its bytes and do its operations; the longer of both times is the least it can "
            "take. FLOPs for each byte tell which: left of the ridge memory decides, however clever the code; "
            "right of it the arithmetic does. The roof here is measured: a copy beyond the caches, and a product "
            "of matrices.",
        ),
        ("time ≥ max(bytes / bandwidth, FLOPs / rate)", "ridge = rate / bandwidth"),
        "times five kernels and the ceilings: half a minute",
        (Link("Roofline (Williams, Waterman, Patterson 2009)", "https://doi.org/10.1145/1498765.1498785"),),
        (Source("kernels/bench/answers/lines.py", "ridge"),),
    ),
)  # fmt: skip


def question(key: str) -> Question:
    """The question with a key; raises KernelError for an unknown one."""
    match = next((q for q in QUESTIONS if q.key == key), None)
    if match is None:
        keys = [q.key for q in QUESTIONS]
        raise KernelError(f"There is no question {key!r}.", nearest(key, keys))
    return match
