"""The metrics. Each module registers what it holds, so adding a metric means touching one file.

ranking                  plain functions of one query, also the readable reference of the fast path
judged_ranking           the same for measures that look at judgements
retrieval_basic          recall, precision, hit rate, F1 at k; recall over parent documents
retrieval_ranking        MRR, MAP, nDCG, R-precision
retrieval_judged         bpref, Judged@k, accuracy over candidates, RBP, ERR
retrieval_spans          span recall, precision, IoU: characters covered, whatever the chunking
retrieval_cost           AQWV, empty results
overlap                  plain functions of one answer, also the readable reference of the fast path
answer_match             exact match, token F1, containment, relevance to the query
rouge                    ROUGE-1, -2, -L, -Lsum against references or the query
bleu, chrf               BLEU and chrF of all answers together
grounding                evidence overlap, support coverage and density, hallucination rate
citations                citation coverage, precision and recall of cited gold
citation_support         whether what is cited supports what is said: ALCE, TREC RAG
nugget_recall            the facts a good answer holds: vital and okay nuggets
verdicts                 what metrics share that count verdicts on statements
support_shares           plain functions over such verdicts
generation_semantic      similarity of meaning: embeddings, SBERT, cross-encoders
claim_answers            claims of the answer against the reference: precision, recall, F1
claim_grounding          where claims come from: faithfulness, noise sensitivity, self-knowledge, hallucination
claim_context            claims of the reference in the documents: recall, precision, use
claim_verdicts           the same as plain functions of verdicts, exact
claim_base               what metrics over claims share
context_judged           documents as a judge sees them: average precision, sentences that are needed
reverse_questions        relevance of the answer by questions guessed from it
context_semantic         relevance and redundancy of returned documents, by embeddings
nli_grounding            sentences of the answer that the evidence entails
semantic_base            what metrics of meaning share
expectations             groundedness: what an answer must and must not contain
abstention               refusals of what cannot be answered, and of what can
refusals                 what metrics of refusals share
context_noise            accuracy by the share of noise among the documents
false_documents          whether answers say that documents are wrong, and are right all the same
misleading               right answers that false documents turn wrong, false answers that reappear
context_robustness       the three of them in one place (re-exports)
structured               labels, fields and JSON schemas of structured answers
answers                  what metrics of answers share
generation_overlap       the overlap metrics in one place (re-exports); generation_text likewise
retrieval_metrics        what the evaluation client computes, classes and plain functions (re-exports);
generation_metrics       likewise
latency                  mean and quantiles of timings, throughput
diversity                distinct n-grams, documents unlike each other, answers unlike each other
additional               latency and diversity in one place (re-exports)
k_policy                 the K lists of a paper, and K_eff
retrieval_eval           evaluate_queries, dual_evaluate, paper_evaluate over rows of ids
classification           AUROC, AUPRC, TPR at FPR (NEGateMetrics)
"""
