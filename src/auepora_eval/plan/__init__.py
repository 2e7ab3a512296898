"""Plan files: the description of an evaluation in YAML, TOML or JSON, checked before the system is called.

* ``source``: files as values with line numbers, and the collection of errors
* ``sections``, ``resources``, ``gates``, ``secrets``: checks of the sections of a plan
* ``model``: the ``Plan`` dataclass, and differences between two plans
* ``prepare``: ``read_plan``, ``prepare`` and ``check_plan``
* ``starter``: the plan that ``auepora init`` writes
"""
