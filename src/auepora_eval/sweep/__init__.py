"""Sweeps: several configurations of a system on the same questions, and which of them to ship.

* ``run``: checks a sweep before anything is spent, and runs its configurations
* ``elimination``: configurations that leave before all questions are asked
* ``answer``: what the stored runs say: the best, against the baseline, the cheapest that is not worse
* ``rendering``: the answer as blocks, and as JSON
"""
