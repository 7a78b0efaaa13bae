"""The compute screen: offers and rented pods."""
