"""SystemVerilog in the colours of the theme."""

from __future__ import annotations

import re

from PySide6.QtGui import QColor, QFont, QSyntaxHighlighter, QTextCharFormat, QTextDocument

from app.theme import Palette

KEYWORDS = (
    "always|always_comb|always_ff|assign|automatic|begin|bit|break|case|casez|continue|default|else|end|endcase|"
    "endfunction|endgenerate|endmodule|endpackage|endtask|enum|for|function|generate|genvar|if|import|initial|"
    "inout|input|int|integer|localparam|logic|module|negedge|output|package|packed|parameter|posedge|real|reg|"
    "return|signed|string|struct|task|typedef|unique|unsigned|void|while|wire"
)
# Later ones win: what stands in a comment or a string is neither keyword nor number.
RULES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("number", re.compile(r"\b\d*'s?[bodhBODH][0-9a-fA-FxzXZ_?]+|'[01]\b|\b\d[\d_]*\b")),
    ("keyword", re.compile(rf"\b(?:{KEYWORDS})\b")),
    ("system", re.compile(r"[$`]\w+")),
    ("string", re.compile(r'"(?:[^"\\]|\\.)*"')),
    ("comment", re.compile(r"//.*|/\*.*?\*/")),
)


class Highlighter(QSyntaxHighlighter):
    """Colours of one theme; `use` takes another."""

    def __init__(self, document: QTextDocument, palette: Palette) -> None:
        super().__init__(document)
        self._formats: dict[str, QTextCharFormat] = {}
        self.use(palette)

    def use(self, palette: Palette) -> None:
        """Colour again, for `palette`."""
        colours = {
            "keyword": palette.accent, "number": palette.bad, "string": palette.good, "comment": palette.muted,
            "system": palette.scale[1],
        }  # fmt: skip
        for name, colour in colours.items():
            made = self._formats[name] = QTextCharFormat()
            made.setForeground(QColor(colour))
            made.setFontItalic(name == "comment")
        self._formats["keyword"].setFontWeight(QFont.Weight.DemiBold)
        self.rehighlight()

    def highlightBlock(self, text: str) -> None:
        for name, pattern in RULES:
            for found in pattern.finditer(text):
                if name != "comment" or text[: found.start()].count('"') % 2 == 0:
                    self.setFormat(found.start(), found.end() - found.start(), self._formats[name])
