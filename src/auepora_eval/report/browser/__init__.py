"""The query browser of a report: samples, outputs and judgements, packed into the page.

* ``listing``: which queries are listed, their columns, and the page fragment
* ``query_json``: one query as JSON
* ``pack``: compressed blocks
* ``assets/``: the script and the style sheet
"""
