"""Simulation: synthetic worlds whose truth is known."""
