"""Perturbations of queries and retrieved documents; the same seed gives the same perturbation."""
