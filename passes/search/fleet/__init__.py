"""Fleets: workers on any machine that share a study, their heartbeats, and how a project reaches them."""
