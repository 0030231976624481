"""Multiplierless constant matrix products: networks of adders by signed digits with shared subexpressions."""
