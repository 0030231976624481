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
            "The first call traces the function, generates code and runs a C++ or Triton compiler, which takes "
            "seconds. Later calls check that the code still applies (guards) and run it.",
            "A long chain of elementwise operations becomes faster: fused, it reads and writes memory once instead of "
            "once per operation. A small layer has little to fuse. Where its operations take microseconds, the guards "
            "can cost more than fusion saves, so the compiled layer may stay slower on a CPU.",
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
            "Both compute the same. Unfused, each of five operations reads its operands from memory and writes its "
            "result back. Fused, a row stays in registers or caches between them.",
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
        "What does fused attention save as sequences grow?",
        (
            "Every token attends to every other: s² scores per head. Naive attention writes that matrix, then reads "
            "and writes it again for the scale and the softmax. Its memory grows with the square of the length.",
            "Fused, a block of queries visits the keys block by block. The softmax is computed online: where a block "
            "has a larger score, the sums so far are multiplied by exp(old − new). The scores are never written to "
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
            "byte s. A bfloat16 has the same parts in another order: sign, exponent, fraction. So shifts alone build "
            "it. But a float has an implicit one before its fraction. Where bit 6 is set, that one is in the code "
            "(dont_need_abs). Elsewhere the float with the same sign and exponent and no fraction (bias) is "
            "subtracted.",
        ),
        ("y = m/64·2^(s − 127)", "built = sign · s · (|m| & 63) « 1", "y = built, or built − bias where bit 6 is 0"),
        "times the conversions from codes to floats: some seconds",
        (Link("OCP Microscaling Formats 1.0",
              "https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf"),),
        (Source("kernels/lab/mx_dequantize.py", "_bits8"), Source("kernels/lab/mx_dequantize.py", "_values8")),
    ),
    Question(
        "tiles",
        "Tiles and threads",
        "How is a tensor divided into tiles and among threads?",
        (
            "A GPU runs a block of threads for each tile (cta_tiler). The layout of threads (layout_sX) is repeated "
            "over the tile: each thread takes one element per repetition. Memory is read in sectors of 32 bytes. "
            "Where neighbouring threads read neighbouring elements, few sectors serve a warp; along a column each "
            "thread needs a sector of its own. Cache lines of a CPU have the same effect, which is timed here.",
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
        "How much memory do 8 bits save?",
        (
            "A code of 8 bits and its share of an 8-bit exponent per 32 codes are 8.25 bits: 74.2 % less than float32. "
            "86.7 %, which is sometimes quoted, is the figure of 4 bits (4.25).",
            "A whole model saves less: embeddings, norms and biases stay in float, a layer's values are in memory "
            "while it is multiplied, and allocators round up. The figures of a model are shown below where one is "
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
            "A kernel must move its bytes and do its operations. The longer of the two times is a lower bound of its "
            "time. FLOPs per byte (arithmetic intensity) tell which: left of the ridge a kernel is bound by memory, "
            "right of it by arithmetic. The roof here is measured: a copy larger than the caches, and a product of "
            "matrices.",
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
