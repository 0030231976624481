"""Running a model on data: which samples, in which batches, what is observed on the way."""
