"""The charts of studies, fluent at ten thousand trials, and the board that holds them."""
