"""Runs kept in a database: what was asked, what came back, what it scored."""
