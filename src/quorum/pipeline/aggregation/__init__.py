"""Tables across runs: from a specification to runs, records, cells and files, and back."""
