"""Searches and sweeps of the open model, their trials and files: what stands behind those panels."""
