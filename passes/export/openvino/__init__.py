"""Writes OpenVINO's intermediate representation (.xml with .bin), and runs it in a process of its own."""
