"""What a person sees and types: the window, and the command line beside it."""
