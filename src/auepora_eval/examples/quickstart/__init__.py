"""A first evaluation: a handbook as corpus, questions on it, two systems that answer them, a plan for each.

corpus/          the handbook: one file per chapter, one chunk per paragraph
questions.jsonl  questions with gold chunks and reference answers: plain ones, paraphrases, typing errors,
                 counterfactual variants, and some that the handbook does not answer
handbook         paths of these files, and the handbook split into chunks
words            tokenisation that both systems use
retrievers       two retrievers: BM25, and counting shared words
generators       two generators: the best sentence, and the first one
systems          the two systems, ready for a plan: ``bm25`` and ``baseline``
plan-*.yaml      the plans for ``auepora run``
"""
