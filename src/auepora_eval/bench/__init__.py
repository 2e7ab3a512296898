"""Published benchmarks as one command: where their files are, how they are read, and what their scripts compute.

* ``entries``: a benchmark as one YAML file, its dataclasses and their check
* ``paths``: values of a record by a path such as ``paragraphs[is_supporting].text``
* ``reading``: samples and outputs from the files of a benchmark
* ``recognition``: which benchmark a file belongs to, and what it lacks
* ``scoring``: the published numbers, and ours beside them
* ``pages``: the texts of the commands, and the page of all benchmarks
"""
