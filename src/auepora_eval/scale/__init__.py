"""Evaluation of many files, with checkpoints and on a Ray cluster.

* ``sharded``: ``evaluate_files``: the index of records, the join by id hashes, ranges scored by an executor
* ``inputs``: the files, and their ranges of bytes and of rows
* ``checkpoint``: a folder of scores from which an evaluation resumes
* ``ray_executor``: the executor on a Ray cluster, and the code that its workers run
"""
