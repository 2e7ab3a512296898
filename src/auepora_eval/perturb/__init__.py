"""Perturbing a system on purpose: its queries and what it retrieves."""
