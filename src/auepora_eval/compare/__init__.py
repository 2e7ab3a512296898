"""Runs held against each other: query by query, metric by metric, with error bars and an honest verdict."""
