"""What is drawn of formats, weights and masks, as numbers: numpy alone, no widgets."""
