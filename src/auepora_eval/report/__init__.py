"""Reports on stored runs: HTML pages, charts, explanations and metric cards.

* ``pages``: ``write_report``: one run, a comparison of two, or a leaderboard of more
* ``score_sections``, ``run_sections``, ``comparison_sections``: the sections of the pages
* ``figures``: the stored data of a run, and its figures
* ``browser``: the queries of a report
* ``plots``, ``stored_plots``: charts of results and of stored runs
* ``explain``: how a stored number was computed
* ``cards``: metric cards, and the generated reference pages ``docs/metrics``
"""
