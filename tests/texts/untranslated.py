"""Which shown texts are English in the pseudo language: words outside brackets that are no names, units or keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tests.texts.walk import Shown

BRACKETED = re.compile(r"⟦[^⟦⟧]*⟧")
WORD = re.compile(r"[A-Za-z][\w./-]*\w|[A-Za-z]{2,}")
KEYS = re.compile(r"(?:(?:Ctrl|Alt|Shift)\+)+\S+|\b(?:F\d+|Esc|Return|Tab|Space|Del(?:ete)?|Up|Down|PgUp|PgDown)\b")
CODE = re.compile(r"m = es\.open\(.*\)|\w+\([^ ]*\)|\S*=\S*|[/~]\S*|\S+\.py(?::\d+)?|_?\w+ · kernels/|(?:\d+x)+\d+")

# Words that are the same in any language.
UNITS = "B KiB MiB GiB MB GB s ms µs ns min h dB nats MHz FLOP FLOPs MACs B/s GB/s s²"
SYMBOLS = "SQNR KL LUT DSP BRAM FF CPU GPU CUDA CSV kᵀ"
NAMES = """Espalier Python PyTorch torch triton naive cuda softmax mask float English AMD Intel EPYC Xeon
           cta_tiler layout_sX encoder.layer.0 torch.compile Ansel et al this"""  # this: the device of plans
OF_QT = ("Close", "Float", "Scroll Left", "Scroll Right", "Closes the dock widget",
         "Undocks and re-attaches the dock widget", "Press shortcut")  # fmt: skip
OF_DATA = ("SampleTable", "SourceText")  # widgets whose texts are samples or code


def untranslated(texts: Iterable[Shown], names: Iterable[str]) -> Iterator[tuple[Shown, list[str]]]:
    """Each text with its English words. `names`: those of the model, of its data and of what is registered."""
    known = {w for n in (*names, UNITS, SYMBOLS, NAMES) for w in words(n)}
    for text in texts:
        if text.text not in OF_QT and text.widget not in OF_DATA:
            rest = KEYS.sub(" ", CODE.sub(" ", outside(text.text)))
            if left := [w for w in words(rest) if w not in known]:
                yield text, left


def outside(text: str) -> str:
    """What is not in brackets, of any depth; of a part of a translated text, what stands behind it."""
    while (shorter := BRACKETED.sub(" ", text)) != text:
        text = shorter
    return text.rpartition("⟧")[2]


def words(text: str) -> list[str]:
    """The words of a text, and the parts of those that are paths."""
    found = WORD.findall(text)
    return [*found, *(part for w in found for part in re.split(r"[./-]", w) if len(part) > 1 and part != w)]
