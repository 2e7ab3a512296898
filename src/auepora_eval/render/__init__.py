"""Rendering of results: blocks, tables, Markdown, HTML, charts and terminal text. It reads no store.

* ``blocks``: sections, tables and figures as plain dataclasses
* ``block_report``: what results and reports have in common: text, notebook output, ``print``
* ``html``, ``markdown``: the blocks as a page, as notebook output, as Markdown
* ``tables``: results as text tables, CSV and Parquet
* ``short``: a result in few lines, with the digits that its interval allows
* ``terminal``: control characters, formulas, the progress line
* ``charts``: Vega-Lite specs, and their drawing as SVG
"""
