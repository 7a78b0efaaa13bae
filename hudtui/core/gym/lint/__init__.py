"""Checks of a gym configuration: findings with their lines, and fixes that are safe to apply."""
