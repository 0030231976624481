"""The Recipe panel."""
