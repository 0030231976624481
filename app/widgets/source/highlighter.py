"""Syntax highlighting of SystemVerilog in the colours of the theme."""

from __future__ import annotations

import re

from PySide6.QtGui import QColor, QFont, QSyntaxHighlighter, QTextCharFormat, QTextDocument

from espalier.app.theme import Palette

KEYWORDS = (
    "always|always_comb|always_ff|assign|automatic|begin|bit|break|case|casez|continue|default|else|end|endcase|"
    "endfunction|endgenerate|endmodule|endpackage|endtask|enum|for|function|generate|genvar|if|import|initial|"
    "inout|input|int|integer|localparam|logic|module|negedge|output|package|packed|parameter|posedge|real|reg|"
    "return|signed|string|struct|task|typedef|unique|unsigned|void|while|wire"
)
# One expression, so that no keyword or number is matched within a comment or string.
RULES = re.compile(
    r"(?P<comment>//.*|/\*.*?\*/)"
    r'|(?P<string>"(?:[^"\\]|\\.)*")'
    rf"|(?P<keyword>\b(?:{KEYWORDS})\b)"
    r"|(?P<number>\b\d*'s?[bodhBODH][0-9a-fA-FxzXZ_?]+|'[01]\b|\b\d[\d_]*\b)"
    r"|(?P<system>[$`]\w+)"
    r"|[A-Za-z_]\w*"
)


class Highlighter(QSyntaxHighlighter):
    """Highlights by `rules`, whose group names are the kinds of tokens, in the colours of a theme."""

    rules = RULES

    def __init__(self, document: QTextDocument, palette: Palette) -> None:
        super().__init__(document)
        self._formats: dict[str, QTextCharFormat] = {}
        self.use(palette)

    def use(self, palette: Palette) -> None:
        """Set the theme and highlight again."""
        colours = {
            "keyword": palette.accent, "number": palette.bad, "string": palette.good, "comment": palette.muted,
            "system": palette.scale[1],
        }  # fmt: skip
        for name, colour in colours.items():
            fmt = self._formats[name] = QTextCharFormat()
            fmt.setForeground(QColor(colour))
            fmt.setFontItalic(name == "comment")
        self._formats["keyword"].setFontWeight(QFont.Weight.DemiBold)
        self.rehighlight()

    def format_of(self, kind: str) -> QTextCharFormat:
        """The character format of a kind of token."""
        return self._formats[kind]

    def highlightBlock(self, text: str) -> None:
        for match in self.rules.finditer(text):
            if kind := match.lastgroup:
                self.setFormat(match.start(), match.end() - match.start(), self._formats[kind])
