"""The metrics. Each module registers its metrics; ``_index`` finds the module of a name without importing it.

* ``ranking``: plain functions of one query, their derivations, and the base class of ranking metrics
* ``retrieval``, ``retrieval_judged``, ``retrieval_spans``: metrics over rankings, judgements and spans
* ``overlap``: plain functions of one answer
* ``answer_base``, ``answer_match``, ``rouge``, ``bleu_chrf``, ``grounding``, ``structured``: metrics of the answer
* ``citations``, ``citation_support``: citations, their support, and nuggets
* ``judged_base``, ``judged_statements``: base classes of metrics by a judge
* ``claims``, ``context_judged``, ``generation_llm_judge``: metrics by a judge
* ``rated_inputs``, ``judge_metric``, ``answer_judged``: inputs that a judge rates, and metrics that are a prompt
* ``rubric``: rubrics of samples
* ``semantic``, ``bertscore``: metrics by a local model
* ``abstention``, ``robustness``, ``false_documents``: refusals, noisy questions, false documents
* ``wrappers``, ``attribution``: metrics computed from other metrics
* ``latency``, ``diversity``: timings, and variety of answers and documents
* ``k_policy``, ``classification``: cut-offs of a paper, and ROC measures of pairs
* ``retrieval_basic``, ``retrieval_ranking``, ``retrieval_eval``, ``retrieval_metrics``: re-exports
* ``generation_text``, ``generation_overlap``, ``generation_semantic``, ``generation_metrics``: re-exports
* ``additional``: re-exports of latency, diversity and robustness
"""
