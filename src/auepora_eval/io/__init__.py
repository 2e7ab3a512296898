"""Reading and writing data files.

============ =============================================================================================
module       what it holds
============ =============================================================================================
load         ``load_dataset``, ``load_outputs``: files of any format, with the texts of a corpus
streams      samples and their outputs from files, pair by pair
formats      the formats by name, and which one a file is probably in
jsonl        ``load_jsonl_dataset``, ``save_jsonl_dataset``, ``load_jsonl_outputs``, ``save_jsonl_outputs``
trec         ``load_qrels``, ``load_run``, ``trec_rankings``: TREC judgements and runs
trec_format  the same as samples and outputs, and back: ``save_qrels``, ``save_run``
trec_parts   two readers (python, arrow), columns of a block, rankings from lines, gold found in columns
beir         BEIR folders: ``save_beir``
golden       golden queries in YAML: ``save_golden``
parquet      tables: ``save_parquet_dataset``, ``save_parquet_outputs``
records      ``samples_from_records``, ``outputs_from_records``: rows of ragas, deepeval, any dicts
record_parts what a column holds, lists in cells, writing; ``rows`` reads the files
squad        questions on paragraphs, and predictions by question id
trec_rag     answers of the TREC RAG track, with citations by sentence
traces       spans of OpenInference and OpenTelemetry GenAI: outputs, and questions as samples
trace_parts  spans of any shape, their attributes, questions and answers
corpus       ``Corpus``, ``with_texts``: documents kept once, named by their ids
nuggets      ``read_nuggets``, ``write_nuggets``, ``with_nuggets``: the facts that good answers hold
validate     ``validate_files``: every problem of a dataset and its outputs, and what they are good for
checking     what is odd, what is there, which targets and metrics it supports
convert      ``convert_files``: from one format to another, counting what is lost
align        ``align_outputs``: outputs by sample id, put in the order of the samples
codec        one line of JSON <-> ``EvaluationSample`` or ``SystemOutputs``
building     the objects made of the rows of a file, fast
reading      what readers hand on, and where they put what is wrong
problems     what is wrong with a line, as a sentence; ``all_problems``: everything that is
parts        a record made part by part, so that everything wrong with it is said
repeated_keys keys that come twice in one JSON object
hints        what an unknown key in it was probably meant to be
fingerprint  ``dataset_fingerprint``: what tells a dataset from any other
labels       ``read_labels``, ``append_label``: what people said about answers, one per line
ids          ``text_id``: an id for a text that has none
json_values  values of JSON, one per line, over several or in an array: for records and for spans
yaml_values  YAML as plain values that know their lines
files        opening, gzip and zstd, atomic writing
============ =============================================================================================
"""
