"""The report: one HTML file that shows stored runs, alone or held against each other.

page          the file: sections, style and script, the policy that allows nothing else
blocks        what a section is made of: text, tables, figures, as plain values
stored_run    what the store holds of a run, each part read once
told_...      the sections of one run, of two, of more
as_markdown   the same sections as Markdown
browser       the queries of the runs, packed, and the script that shows them
"""
