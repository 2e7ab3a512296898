"""The command line, ``auepora``: a module holds a command, or a few related ones, and is imported when one is called.

Modules that are not commands:

* ``main``: the group of commands, and exit codes
* ``options``: options and output that several commands share
* ``judge_options``: options and output of commands that may call a judge, and the progress of runs
* ``judgements``: stored judgements as text, JSON and lines
* ``label_sessions``: the sessions of ``auepora label``
* ``short_results``: results in few lines
* ``console``: messages on stderr, closed pipes, signals
"""
