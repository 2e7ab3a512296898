"""The query browser of a report: what was asked and what came of it, packed into the page and unpacked when opened.

pack      the whole: a fragment for the page
sources   what is read from the store for one run
listing   the columns of the list: ids, questions, labels, metrics
queries   one query as the page holds it
marks     which documents are hits, which words have no support, where gold lies
blocks    compressed blocks of JSON; documents once each
assets    the script and the style sheet
"""
