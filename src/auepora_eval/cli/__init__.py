"""The command line, ``auepora``: one module per command, imported when the command is called.

Modules that are not commands:

* ``main``: the group of commands, and exit codes
* ``options``: options and output that several commands share
* ``judge_options``: options and output of commands that may call a judge, and the progress of runs
* ``console``: messages on stderr, closed pipes, signals
"""
