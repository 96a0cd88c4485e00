"""Backends: models behind one door, each in one file, imported on first use."""
