"""The command line, ``auepora``: one module per command, loaded when it is called.

main        the group, and how errors end
score       dataset and outputs, or qrels and a run, to numbers
metrics     the metrics, listed and explained
crosscheck  every metric computed twice, and against other tools
specs       metrics as they are written after ``-m``
output      where results go
remarks     what ``score`` says about the data besides the numbers
"""
