"""Grades of documents by models and people, and corrections of gold.

* ``pool``: the union of the top documents of several runs, and its files
* ``relevance``: grading of pooled documents by a judge
* ``drawn_pairs``: draws of pairs from a pool for people to grade, and batches of them
* ``human_grades``: the files of human grades
* ``partial_grades``: metrics corrected by human grades for some of the documents
* ``corrections``: corrections of gold: proposals from a sample, their effect on all runs, rescoring with them
"""
