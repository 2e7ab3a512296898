"""Reporting: results for people to read.

tables        dictionaries, Markdown tables, plain tables
markdown      text that Markdown shows as it is, and tables of it
metric_cards  what each metric means; the reference pages are made of them
plain_math    formulas for a terminal
progress      the line on stderr that tells how far the work is
"""
