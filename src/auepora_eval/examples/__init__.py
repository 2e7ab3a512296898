"""Examples that run as they are.

simple_rag     a toy retriever and generator behind the two small interfaces: where to put your own
example_plan   documents, questions and a plan over retrieval and generation, evaluated end to end in memory
quickstart     a whole evaluation in files: a handbook, questions on it, two systems, a plan for each
"""
