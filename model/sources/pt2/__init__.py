"""Reads torch.export files as data: what is in one is checked before torch makes anything of it."""
