"""Reading and writing data files.

========== =============================================================================================
module     what it holds
========== =============================================================================================
jsonl      ``load_jsonl_dataset``, ``save_jsonl_dataset``, ``load_jsonl_outputs``, ``save_jsonl_outputs``
trec       ``load_qrels``, ``load_run``, ``trec_rankings``: TREC judgements and runs
trec_*     its parts: two readers (python, arrow), columns of a block, rankings from lines
records    ``samples_from_records``, ``outputs_from_records``: rows of ragas, deepeval, any dicts; ``text_id``
records_*  writes them; ``rows``, ``columns``, ``cells`` are its parts: files, what a column holds, lists as texts
squad      questions on paragraphs, and predictions by question id
trec_rag   answers of the TREC RAG track, with citations by sentence
traces     spans of OpenInference and OpenTelemetry GenAI: outputs, and questions as samples
span*      its parts: shapes of a span (spans), attributes (span_values), questions and answers (span_texts)
ids        ``text_id``: an id for a text that has none
align      ``align_outputs``: outputs by sample id, put in the order of the samples
codec      one line of JSON <-> ``EvaluationSample`` or ``SystemOutputs``
problems   what is wrong with such a line, as a sentence
hints      what an unknown key in it was probably meant to be
json_*     values of JSON, one per line or over several
files      opening, gzip, atomic writing
========== =============================================================================================
"""
