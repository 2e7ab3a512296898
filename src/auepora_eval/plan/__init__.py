"""Plan files: the description of an evaluation in YAML, TOML or JSON, checked before the system is called.

* ``source``: files as values with line numbers, reading of values by declared types, the collection of errors,
  literal secrets
* ``model``: the dataclasses of the sections and of the ``Plan``, and differences between two plans
* ``sections``, ``resources``, ``gates``: what the types of a section cannot express
* ``prepare``: ``read_plan``, ``prepare`` and ``check_plan``
* ``starter``: the plan that ``auepora init`` writes
"""
