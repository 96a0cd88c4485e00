"""Survey reconstruction: personas answer closed questions, weights on them match a population."""
