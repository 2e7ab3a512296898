"""The query browser of a report: samples, outputs and judgements, packed into the page.

pack      builds the page fragment
sources   reads one run from the store
listing   the columns of the list: ids, questions, labels, metrics
queries   one query as JSON
marks     hits among documents, unsupported words, gold passages
blocks    compressed blocks of JSON; documents once each
assets    the script and the style sheet
"""
