"""Reports on stored runs: HTML pages, charts, explanations and metric cards.

* ``pages``: ``write_report``: one run, or two or more that are compared
* ``score_sections``, ``run_sections``, ``comparison_sections``: the sections of the pages
* ``stored_run``: the stored data of a run
* ``browser``: the queries of a report
* ``plots``, ``stored_plots``: charts of results and of stored runs
* ``explain``: how a stored number was computed
* ``cards``: metric cards
"""
