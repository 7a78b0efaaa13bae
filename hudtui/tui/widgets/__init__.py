"""Reusable pieces that know no screen."""
