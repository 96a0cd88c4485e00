"""The reconstruction study: its stages."""
