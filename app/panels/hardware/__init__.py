"""The panel Hardware."""
