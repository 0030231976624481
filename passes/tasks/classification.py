"""One class a sample: text and image classification."""

from espalier.model.data.base import CLASSIFICATION
from espalier.passes.tasks.base import TASKS, Task

TASKS.add(CLASSIFICATION, Task())
