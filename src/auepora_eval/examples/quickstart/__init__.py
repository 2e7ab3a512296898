"""A first evaluation to look at: a handbook as corpus, questions on it, two systems that answer them, a plan for each.

corpus/          the handbook: one file per chapter, one chunk per paragraph
questions.jsonl  questions with gold chunks and reference answers: plain ones, paraphrases, typing errors,
                 counterfactual variants, and some that the handbook does not answer
handbook         where these files are, and the handbook cut into chunks
words            words as both systems compare them
retrieving       two ways to find chunks: BM25, and counting shared words
answering        two ways to answer from chunks: the best sentence, and the first one
systems          the two systems, ready for a plan: ``bm25`` and ``baseline``
plan-*.yaml      what ``auepora run`` is given
"""
