"""Plan files: an evaluation written down, checked in full before anything is called.

============== ===========================================================================================
module         what it holds
============== ===========================================================================================
read           ``read_plan``, ``plan_problems``: a file as a ``Plan``, or what is wrong with it
plan           ``Plan`` and its parts
prepare        ``prepare``: data read, metrics resolved, system built; all checked, nothing called
check          ``check_plan``: everything wrong with a plan and what it names, and what would run
changes        ``plan_key``, ``plan_changes``: whether two plans ask for the same run
starter        ``starter_plan``: a first plan for data at hand
source         YAML, TOML and JSON as values that know their lines; ``looks_like_plan``
sections       the sections of a plan; ``system_section``: those that may refer to variables
gates_section  what a run must reach
secrets        ``${NAME}`` from the environment; secrets that are written out
findings       what is wrong, gathered; questions asked of every value
============== ===========================================================================================
"""
