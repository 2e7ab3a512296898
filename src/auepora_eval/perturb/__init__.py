"""Perturbations of queries and retrieved documents; the same seed gives the same perturbation.

* ``queries``: variants of questions: by edits, by functions, by a language model
* ``edits``: edits that need no model
* ``documents``: kinds and rates of document perturbations, noise, labels of samples; retrievers and systems whose
  rankings are perturbed; documents that are given on purpose, as in a diagnosis
* ``payloads``: adversarial documents
"""
