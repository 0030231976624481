"""Searches of the open model, their trials and files: the state of the panel."""
