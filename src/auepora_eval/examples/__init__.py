"""Examples that run as they are.

simple_rag     a toy retriever and generator behind the two small interfaces
example_plan   a plan over retrieval and generation, evaluated end to end
"""
