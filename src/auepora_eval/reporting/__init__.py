"""Reporting: results for people to read.

tables        dictionaries, Markdown tables, plain tables
charts        charts from plain data, and their drawing
plots         the same of results, comparisons and stored runs
result_rows   results as the rows of charts
notebook      what a notebook shows of results
markdown      text that Markdown shows as it is, and tables of it
metric_cards  what each metric means; the reference pages are made of them
plain_math    formulas for a terminal
progress      the line on stderr that tells how far the work is
"""
