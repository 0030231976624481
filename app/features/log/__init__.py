"""What the program tells while it runs."""
