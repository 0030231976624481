"""What is drawn of a study of trials: its data, names and words. No Qt."""
