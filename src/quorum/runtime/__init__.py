"""How requests become replies: the store, the scheduler, limits, retries, ledger and progress."""
