"""The report as one self-contained HTML file.

browser  the queries of runs, packed and shown by a script in the page
"""
