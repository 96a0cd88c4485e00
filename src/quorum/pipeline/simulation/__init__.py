"""The stages of a simulation: a grid, its worlds, what is done in them, and what came of it."""
