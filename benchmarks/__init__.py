"""Benchmarks: ours and the peers side by side in one run, as ratios. ``make bench`` runs them."""
