"""What a synthesiser and a router make of a design."""
