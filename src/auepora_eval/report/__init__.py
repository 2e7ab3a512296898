"""Reports on stored runs: HTML pages, charts, explanations and metric cards.

* ``pages``: ``write_report``: one run, or two or more that are compared
* ``run_sections``, ``score_sections``, ``comparison_sections``: the stored data of a run, and the sections of the pages
* ``gate_table``, ``junit``: the outcomes of gates as a table, and as JUnit XML
* ``diagnosis``: the report of a diagnosis
* ``browser``: the queries of a report
* ``plots``, ``stored_plots``: charts of results and of stored runs
* ``explain``: how a stored number was computed
* ``cards``: metric cards
"""
