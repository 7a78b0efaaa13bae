"""Hosts: where commands run and files live, on this machine or another."""
