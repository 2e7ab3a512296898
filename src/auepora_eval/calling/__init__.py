"""Asking a system: many calls at once, each with a deadline, failures recorded, nothing lost."""
