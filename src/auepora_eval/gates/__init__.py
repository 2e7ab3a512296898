"""Gates: conditions that a run must satisfy, such as ``recall@5 >= 0.80``.

============== ===========================================================================================
module         contents
============== ===========================================================================================
kinds          the kinds of gates, as dataclasses
tokens         the tokenizer of gates, and its syntax errors
grammar        ``parse_gate``, ``parse_gates``: the parser
names          lookup of the metrics and slices that gates name
check          ``check_gates``: checks results and a comparison against gates
thresholds     comparison of a number or an interval with a threshold
coverage       the required proportion of scored answers
report         ``GateOutcome``, ``GateReport``
baseline       ``find_baseline``, ``check_run``: the baseline of a stored run, and the check of a run
rendering      the report as a table or as Markdown; ``$GITHUB_STEP_SUMMARY``
junit          the report as JUnit XML
============== ===========================================================================================
"""
