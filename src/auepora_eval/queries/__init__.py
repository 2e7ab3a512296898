"""The queries of stored runs: as columns, as a filtered list, and one by one.

* ``columns``: samples, outputs and scores of a stored run as columns
* ``table``: the queries of several runs as one table, with search
* ``filters``: conditions on queries, search and order; one language for the workbench, the command line and reports
* ``rows``: the rows of a list
* ``marked_texts``: texts with marks, cut where they are long
* ``view``: one query: marks and ranks of gold, unsupported words, claims and judgements
* ``failure_groups``: wrong answers grouped by terms that their questions share
"""
