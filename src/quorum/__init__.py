"""Quorum: which parts of a prompt made a language model answer so, and how sure are we."""

__version__ = "0.1.0"
