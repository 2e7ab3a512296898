"""The query browser of a report: samples, outputs and judgements, packed into the page.

* ``pack``: builds the page fragment
* ``listing``: the stored queries as columns and JSON in compressed blocks; marks of hits, unsupported
  words and gold passages
* ``assets/``: the script and the style sheet
"""
