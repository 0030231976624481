"""Reads torch.export files as data: their contents are checked before torch uses them."""
