"""The launch screen: what runs, where, and what it may cost."""
