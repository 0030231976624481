"""Fast fake quantisation: plans map formats to loops and constants; one backend per device runs them."""
