"""Reporting: results for people to read.

tables   dictionaries and Markdown tables
"""
