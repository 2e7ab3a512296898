"""Gates: conditions that a run must satisfy, such as ``recall@5 >= 0.80``. Their grammar is in ``plan.gates``.

* ``check``: results and a comparison checked against gates; the baseline of a stored run
* ``report``: the outcomes as a table, Markdown and JUnit XML
"""
