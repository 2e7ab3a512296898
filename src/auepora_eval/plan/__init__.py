"""Plan files: the description of an evaluation in YAML, TOML or JSON, checked before the system is called.

============== ===========================================================================================
module         contents
============== ===========================================================================================
read           ``read_plan``, ``plan_problems``: read a file as a ``Plan``, or list its errors
plan           ``Plan`` and its parts
prepare        ``prepare``: read the data, resolve the metrics, build the system; nothing is called
check          ``check_plan``: every problem in a plan and the files it names, and what would run
changes        ``plan_key``, ``plan_changes``: whether two plans describe the same run
starter        ``starter_plan``: a starter plan for a dataset
source         YAML, TOML and JSON as values with line numbers; ``looks_like_plan``
sections       the sections of a plan; ``system_section``: those with environment variables
gates_section  the gates of a plan
secrets        ``${NAME}`` from the environment; detection of literal secrets
findings       collection of errors; checks of single values
============== ===========================================================================================
"""
