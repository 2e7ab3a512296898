"""A first evaluation: a handbook as corpus, questions on it, two systems that answer them, a plan for each.

* ``corpus/``: the handbook: one file per chapter, one chunk per paragraph
* ``questions.jsonl``: questions with gold chunks and reference answers: plain ones, paraphrases, typing errors,
  counterfactual variants, and some that the handbook does not answer
* ``plan-*.yaml``: the plans for ``auepora run``
* ``systems``: paths of these files, two retrievers, two generators, and the systems ``bm25`` and ``baseline``
"""
