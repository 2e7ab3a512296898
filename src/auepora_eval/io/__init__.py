"""Reading and writing data files.

============ =============================================================================================
module       contents
============ =============================================================================================
load         ``load_dataset``, ``load_outputs``: files of any format, joined with a corpus
pair_stream  samples and their outputs from files, pair by pair
formats      the registry of formats, and format detection
jsonl        ``load_jsonl_dataset``, ``save_jsonl_dataset``, ``load_jsonl_outputs``, ``save_jsonl_outputs``
trec         ``load_qrels``, ``load_run``, ``trec_rankings``: TREC judgements and runs
trec_format  the same as samples and outputs, and back: ``save_qrels``, ``save_run``
trec_parts   two readers (Python, Arrow), columnar parsing, rankings and gold matching on columns
beir         BEIR folders: ``save_beir``
golden       golden queries in YAML: ``save_golden``
parquet      tables: ``save_parquet_dataset``, ``save_parquet_outputs``
records      ``samples_from_records``, ``outputs_from_records``: rows of ragas, deepeval, any dicts
record_parts column names of ragas and deepeval, lists in cells, writing
squad        questions on paragraphs, and predictions by question id
trec_rag     answers of the TREC RAG track, with citations by sentence
traces       spans of OpenInference and OpenTelemetry GenAI as outputs and samples
trace_parts  spans in any JSON layout, their attributes, queries and answers
corpus       ``Corpus``, ``with_texts``: a file of documents that are referenced by id
nuggets      ``read_nuggets``, ``write_nuggets``, ``with_nuggets``: the facts that good answers contain
validate     ``validate_files``: every problem of a dataset and its outputs, and the metrics they support
checking     warnings, counts of fields, supported targets and metrics
convert      ``convert_files``: from one format to another, with a count of dropped fields
align        ``align_outputs``: outputs by sample id in the order of the samples
codec        one line of JSON <-> ``EvaluationSample`` or ``SystemOutputs``
builders     fast construction of the data types from parsed rows
reader_types what readers yield, and the collector of problems and warnings
problem_messages messages for decoding errors; ``line_problems``: all problems of one line
error_collector collects all errors of a record instead of stopping at the first
record_files records of JSON, JSONL and CSV files
repeated_keys keys that occur twice in one JSON object
hints        suggestions for unknown keys
fingerprint  ``dataset_fingerprint``: a hash of the samples in their order
grades       relevance grades with their provenance, next to a qrels file
labels       ``read_labels``, ``append_label``: human labels of answers, one per line
ids          ``text_id``: an id derived from a text
json_values  JSON values, one per line, over several lines or in an array
yaml_values  YAML as plain values with line numbers
files        opening, gzip and zstd, atomic writes
============ =============================================================================================
"""
