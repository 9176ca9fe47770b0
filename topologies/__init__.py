"""Fabrics as values: what is connected to what, and every name and number derived from it."""
