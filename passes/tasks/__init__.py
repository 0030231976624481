"""What a model predicts: the unit of a score, its further figures, and what makes data unfit. A task is one file."""
