"""Which shown texts are English in the pseudo language: words outside brackets that are no names, units or keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tests.texts.walk import Shown

BRACKETED = re.compile(r"⟦[^⟦⟧]*(?:⟧|…)")  # also one that is cut
WORD = re.compile(r"[A-Za-z][\w./-]*\w|[A-Za-z]{2,}")
KEYS = re.compile(r"(?:(?:Ctrl|Alt|Shift)\+)+\S+|\b(?:F\d+|Esc|Return|Tab|Space|Del(?:ete)?|Up|Down|PgUp|PgDown)\b")
CODE = re.compile(  # Python, assignments, paths, files with lines, functions of a file, sizes
    r"m(?: = es\.open|\.\w+)\(.*|\w+\([^ ]*\)|\S*=\S*|[/~]\S*|\S+\.py(?::\d+)?|_?\w+ · kernels/|(?:\d+x)+\d+"
)

# Words that are the same in any language.
UNITS = "B KiB MiB GiB MB GB s ms µs ns min h dB nats MHz FLOP FLOPs MACs B/s GB/s s²"
SYMBOLS = "SQNR KL LUT DSP BRAM FF CPU GPU CUDA CSV HTML JSON kᵀ"
PROGRAMS = (
    "Espalier Python PyTorch torch triton naive cuda AMD Intel EPYC Xeon torch.compile McNemar Ansel et al English"
)
CODES = "bf16 fp16 fp32 mxint4 float mask softmax frac_width cta_tiler layout_sX encoder.layer.0 module_related_func"
DEVICES = "a100 h100 this"  # presets of plans; `this` is the machine as it was measured
COMPOSED = "rows columns layers"  # of members of a set of units, which passes/structure/summary.py composes of names
OF_RUNS = "against"  # the name of a sweep is kept with the project
OF_TABLES = "scalar count logits"  # a shape, a unit, an output
OF_QT = (
    "Cancel",
    "Close",
    "Float",
    "Scroll Left",
    "Scroll Right",
    "Closes the dock widget",
    "Undocks and re-attaches the dock widget",
    "Press shortcut",
)
OF_DATA = ("SampleTable", "SourceText")  # widgets whose texts are samples or code
CUT = ("Elided", "text")  # in the middle; the whole text is its tool tip
LEFT = (UNITS, SYMBOLS, PROGRAMS, CODES, CODES.replace("_", " "), DEVICES, COMPOSED, OF_RUNS, OF_TABLES)


def untranslated(texts: Iterable[Shown], names: Iterable[str]) -> Iterator[tuple[Shown, list[str]]]:
    """Each text with its English words. `names`: those of the model, of its data and of what is registered."""
    known = {w for n in (*names, *LEFT) for w in words(n)}
    for text in texts:
        if text.text not in OF_QT and text.widget not in OF_DATA and (text.widget, text.part) != CUT:
            rest = KEYS.sub(" ", CODE.sub(" ", outside(text.text)))
            if left := [w for w in WORD.findall(rest) if w not in known and not {*parts(w)} <= known]:
                yield text, left


def outside(text: str) -> str:
    """What is not in brackets, of any depth; of a part of a translated text, what stands behind it."""
    while (shorter := BRACKETED.sub(" ", text)) != text:
        text = shorter
    return text.rpartition("⟧")[2]


def words(text: str) -> list[str]:
    """The words of a text, and the parts of those that are paths."""
    found = WORD.findall(text)
    return [*found, *(part for word in found for part in parts(word))]


def parts(word: str) -> list[str]:
    """The words of a path or of a compound; the word itself if it is none."""
    return [p for p in re.split(r"[./-]", word) if len(p) > 1 and not p.isdigit()]
