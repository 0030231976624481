"""Runs an exported file in the runtime that it is for, beside that runtime's own ways: one file each runtime."""
