"""Sweeps: several configurations of a system on the same questions, and which of them to ship.

* ``run``: checks a sweep before anything is spent, runs its configurations, and lets the worse ones leave
* ``answer``: what the stored runs say: the best, against the baseline, the cheapest that is not worse
* ``rendering``: the answer as blocks, and as JSON
"""
