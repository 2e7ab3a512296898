"""Processes, threads, files and secrets: helpers that know nothing of metrics."""
