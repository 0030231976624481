"""Passes written for the labs' tool, `my_pass(mg, pass_args={}) → (mg, outputs)`, run here unchanged."""
