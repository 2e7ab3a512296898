"""The command line, ``auepora``: one module per command, imported when it is called.

main        the group of commands, and exit codes
score       scores of saved outputs, or of a TREC run
metrics     the list of metrics, and the card of one
crosscheck  every metric compared with its plain definition and with other tools
specs       metrics as they are written after ``-m``
output      where results are written
"""
