"""The metrics. Each module registers its metrics, so a new metric needs one file.

ranking                  plain functions of one query, the reference of the fast path
judged_ranking           the same for measures that use relevance judgements
retrieval_basic          recall, precision, hit rate, F1 at k; recall over parent documents
retrieval_ranking        MRR, MAP, nDCG, R-precision
retrieval_judged         bpref, Judged@k, accuracy over candidates, RBP, ERR
retrieval_spans          span recall, precision, IoU: characters covered, whatever the chunking
retrieval_cost           AQWV, empty results
overlap                  plain functions of one answer, the reference of the fast path
answer_match             exact match, token F1, containment, relevance to the query
rouge                    ROUGE-1, -2, -L, -Lsum against references or the query
bleu, chrf               BLEU and chrF of all answers together
grounding                evidence overlap, support coverage and density, hallucination rate
citations                citation coverage, precision and recall of cited gold
citation_support         whether cited documents support the answer: ALCE, TREC RAG
nugget_recall            facts a good answer contains: vital and okay nuggets
verdict_base             base class of metrics over verdicts on statements
support_proportions      plain functions over such verdicts
generation_semantic      semantic similarity: embeddings, SBERT, cross-encoders
claim_correctness        claims of the answer compared with the reference: precision, recall, F1
claim_grounding          sources of claims: faithfulness, noise sensitivity, self-knowledge, hallucination
claim_context            claims of the reference in the documents: recall, precision, use
claim_verdicts           the same as exact, plain functions of verdicts
claim_base               base classes of metrics over claims
context_judged           documents graded by a judge: average precision, needed sentences
reverse_questions        answer relevance by questions generated from the answer
context_semantic         relevance and redundancy of retrieved documents, by embeddings
nli_grounding            answer sentences that the evidence entails, by an NLI model
semantic_base            base classes of the semantic metrics
expectations             groundedness: phrases an answer must and must not contain
abstention               refusals of unanswerable and of answerable questions
refusal_base             base classes of metrics over refusals
context_noise            accuracy by the proportion of noise among the documents
false_documents          whether answers report wrong documents, and are still correct
misleading               correct answers that false documents make wrong, repeated false answers
context_robustness       the three of them in one place (re-exports)
structured               labels, fields and JSON schemas of structured answers
answer_base              base classes of metrics over answers
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
