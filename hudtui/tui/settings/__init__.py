"""Keys, addresses and preferences."""
