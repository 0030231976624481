"""One class a sample: text and image classification."""

from espalier.model.data.base import CLASSIFICATION
from espalier.passes.tasks.base import TASKS, Task


class Classification(Task):
    """One class a sample."""

    confuses = True


TASKS.add(CLASSIFICATION, Classification())
