"""Graph → design: the lowering context of the rules, and helpers shared by several rules."""
