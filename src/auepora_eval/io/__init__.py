"""Data files: reading, writing, joining, converting and validating them.

Entry points:

* ``join``: ``load_dataset`` and ``load_outputs`` for files of any format; samples and outputs joined by id
* ``convert``: ``convert_files``, from one format to another
* ``validate``: every problem of a dataset and its outputs, and the metrics they support
* ``formats``: the registry of formats, and format detection

Formats:

* ``jsonl``, ``codec``: our own format: files, and one line
* ``parquet``: the same as a table
* ``trec``: qrels and runs as plain mappings and as columns, read with NumPy or Arrow, and written
* ``trec_format``: the same as samples and outputs, and their evaluation; answers of the RAG track
* ``beir``, ``squad``, ``golden``: BEIR folders, SQuAD files, golden queries in YAML
* ``tables``, ``records``: rows of CSV, Excel, Parquet and JSON; records of ragas, deepeval and any named columns
* ``traces``: traces of OpenInference and OpenTelemetry GenAI

Other files and parts:

* ``corpus``: a file of documents that are referenced by id
* ``grades``: relevance grades with their provenance, corrections of gold and their journal
* ``labels``: human labels, and nuggets
* ``rows``: rows of JSON lines, checked by declared types
* ``sample_sets``: named sets of samples
* ``values``: JSON and YAML values with their lines
* ``problems``: messages about invalid files, and their collection
"""
