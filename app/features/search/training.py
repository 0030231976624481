"""The training of trials: none, before or after compression, or both; with a fine-tuning form."""

from __future__ import annotations

from typing import Any, get_args

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from espalier.app.translation import tr, translated
from espalier.app.widgets.forms.fields import Choice
from espalier.app.widgets.forms.grouped_form import GroupedForm
from espalier.app.widgets.forms.training_groups import GROUPS
from espalier.app.widgets.heading import muted
from espalier.model.document.codec import decode, encode
from espalier.passes.search.spec import Training
from espalier.passes.training.options import FinetuneOptions

WORDS: dict[str, str] = translated({
    "none": "nothing", "before": "before it is compressed", "after": "after it is compressed",
    "both": "before and after",
})  # fmt: skip
TELL: dict[str, str] = translated(
    {
        "none": "Formats and pruning only: a trial takes as long as its score.",
        "before": "Once for each architecture, and shared by all its trials.",
        "after": "Each trial trains through its formats and masks.",
        "both": "Once for each architecture before, and each trial after its compression.",
    }
)


class TrainingField(QWidget):
    """`get` returns (train, options as JSON); raises OptionsError."""

    edited = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.train = Choice(get_args(Training), tuple(WORDS[t] for t in get_args(Training)))
        self.train.setAccessibleName(tr("Training of a trial"))
        self._note = muted("")
        self._note.setProperty("role", "small")
        self.form: GroupedForm | None = None
        self._data = ""
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._box.setSpacing(5)
        self._box.addWidget(self.train)
        self._box.addWidget(self._note)
        self.train.edited.connect(self._chosen)
        self._adapt()

    def put(self, train: str, options: dict[str, Any], data: str = "") -> None:
        """Show options; `data`: the training data if the options name none."""
        self._data = data
        self.train.put(train)
        self._adapt()
        if self.form is not None and (options or train != "none"):
            self.form.put(decode(FinetuneOptions, {"data": data, **options}, "finetune"))

    def get(self) -> tuple[str, dict[str, Any]]:
        """The kind of training and its options; raises OptionsError."""
        train = self.train.get()
        return train, encode(self.form.value()) if train != "none" and self.form else {}

    def _chosen(self) -> None:
        self._adapt()
        self.edited.emit()

    def _adapt(self) -> None:
        train = self.train.get()
        self._note.setText(TELL[train])
        if train != "none" and self.form is None:
            self.form = GroupedForm(FinetuneOptions, GROUPS, without=("freeze", "resume"))
            self.form.put(FinetuneOptions(data=self._data))
            self.form.changed.connect(self.edited)
            self._box.addWidget(self.form)
        if self.form is not None:
            self.form.setVisible(train != "none")
