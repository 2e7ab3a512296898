"""Reports: results as tables, charts, Markdown and HTML.

tables        dictionaries, Markdown tables, plain tables
charts        charts from plain data, and their SVG renderer
plots         charts of results, comparisons and stored runs
result_rows   results as chart rows
notebook      results as notebook HTML
markdown      escaping and tables for Markdown
metric_cards  descriptions of the metrics; the reference pages are made of them
plain_math    formulas for a terminal
progress      the progress line on stderr
"""
