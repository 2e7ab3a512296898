"""Hypothesis settings shared by every test."""

from hypothesis import settings

# Deadlines measure the machine, not the code; derandomised examples make a red run repeatable.
settings.register_profile("auepora", deadline=None, derandomize=True)
settings.load_profile("auepora")
