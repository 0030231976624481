"""Searches of the open model, their trials and files: what stands behind the panel."""
