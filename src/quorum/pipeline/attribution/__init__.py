"""The attribution study: its stages."""
