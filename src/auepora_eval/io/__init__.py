"""Reading and writing data files.

=========== =============================================================================================
module      what it holds
=========== =============================================================================================
load        ``load_dataset``, ``load_outputs``: files of any format, with the texts of a corpus
streams     samples and their outputs from files, pair by pair
formats     the formats by name, and which one a file is probably in
jsonl       ``load_jsonl_dataset``, ``save_jsonl_dataset``, ``load_jsonl_outputs``, ``save_jsonl_outputs``
trec        ``load_qrels``, ``load_run``, ``trec_rankings``: TREC judgements and runs
trec_format the same as samples and outputs, and back: ``save_qrels``, ``save_run``
trec_*      its parts: two readers (python, arrow), columns of a block, rankings from lines
beir        BEIR folders: ``save_beir``
golden      golden queries in YAML: ``save_golden``
parquet     tables: ``save_parquet_dataset``, ``save_parquet_outputs``
records     ``samples_from_records``, ``outputs_from_records``: rows of ragas, deepeval, any dicts
records_*   writes them; ``rows``, ``columns``, ``cells``: files, what a column holds, lists as texts
squad       questions on paragraphs, and predictions by question id
trec_rag    answers of the TREC RAG track, with citations by sentence
traces      spans of OpenInference and OpenTelemetry GenAI: outputs, and questions as samples
span*       its parts: shapes of a span (spans), attributes (span_values), questions and answers (span_texts)
corpus      ``Corpus``, ``with_texts``: documents kept once, named by their ids
ids         ``text_id``: an id for a text that has none
validate    ``validate_files``: every problem of a dataset and its outputs, and what they are good for
findings    what can be read and is odd all the same
inventory   what samples and outputs hold, counted
support     which targets and metrics data supports, and what is missing for the others
convert     ``convert_files``: from one format to another, counting what is lost
align       ``align_outputs``: outputs by sample id, put in the order of the samples
codec       one line of JSON <-> ``EvaluationSample`` or ``SystemOutputs``
reading     what readers hand on, and where they put what is wrong
problems    what is wrong with a line, as a sentence
all_*       everything that is wrong with a line, not only the first
hints       what an unknown key in it was probably meant to be
json_values values of JSON, one per line or over several
yaml_values YAML as plain values that know their lines
files       opening, gzip and zstd, atomic writing
=========== =============================================================================================
"""
