"""Examples that run as they are.

* ``simple_rag``: a toy retriever and generator with the two interfaces to implement
* ``example_plan``: documents, questions and a plan over retrieval and generation, evaluated in memory
* ``llm_critic``: a critic in twenty lines
* ``quickstart``: an evaluation in files: a handbook, questions on it, two systems, a plan for each
"""
