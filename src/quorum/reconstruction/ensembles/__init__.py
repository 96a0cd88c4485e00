"""Ensembles: weights on personas, fitted to a population's shares."""
