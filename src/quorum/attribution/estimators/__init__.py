"""Estimators: which coalitions to ask for, and what each player is worth given their payoffs."""
