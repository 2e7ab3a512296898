"""The command line, ``auepora``: one module per command, loaded when it is called.

main      the group, and how errors end
output    plain tables for the terminal
score     dataset and outputs, or qrels and a run, to numbers
metrics   the metrics, listed and explained
"""
