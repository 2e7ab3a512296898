"""Reading and writing data files.

========== =============================================================================================
module     what it holds
========== =============================================================================================
jsonl      ``load_jsonl_dataset``, ``save_jsonl_dataset``, ``load_jsonl_outputs``, ``save_jsonl_outputs``
trec       ``load_qrels``, ``load_run``, ``trec_rankings``: TREC judgements and runs
trec_*     its parts: two readers (python, arrow), columns of a block, rankings from lines
align      ``align_outputs``: outputs by sample id, put in the order of the samples
validate   ``validate_files``: every problem of a dataset and its outputs, and what they are good for
convert    ``convert_files``: from one format to another, counting what is lost
findings   what can be read and is odd all the same
inventory  what samples and outputs hold, counted
support    which targets and metrics data supports, and what is missing for the others
codec      one line of JSON <-> ``EvaluationSample`` or ``SystemOutputs``
problems   what is wrong with such a line, as a sentence
           (``all_problems``: everything that is wrong with it, not only the first)
hints      what an unknown key in it was probably meant to be
files      opening, gzip, atomic writing
========== =============================================================================================
"""
