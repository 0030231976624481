"""The charts of studies, responsive at ten thousand trials, and the board that shows them."""
