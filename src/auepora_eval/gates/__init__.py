"""Gates: what a run must reach to be let through, written as short texts such as ``recall@5 >= 0.80``.

============== ===========================================================================================
module         what it holds
============== ===========================================================================================
kinds          the kinds of gates, as values
tokens         the text of a gate, cut into words; errors that say where
grammar        ``parse_gate``, ``parse_gates``: texts as gates
names          ``with_known_names``: the metrics that gates name, found among those there are
check          ``check_gates``: results and a comparison held against gates
deciding       what a number or an interval says about a threshold
coverage       how much must have been scored
report         ``GateOutcome``, ``GateReport``: how it went
baseline       ``baseline_of``, ``check_run``: what a stored run is compared with, and the whole check of one
tell           a report as a table or as Markdown; ``$GITHUB_STEP_SUMMARY``
junit          a report as JUnit XML
============== ===========================================================================================
"""
