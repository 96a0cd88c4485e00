"""What calls cost: dated prices, exact cost of usage, and forecasts learned from earlier runs."""
