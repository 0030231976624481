"""What is wrong with the open model."""
