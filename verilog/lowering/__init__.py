"""Graph → design: the context that rules work in, and what several of them build alike."""
