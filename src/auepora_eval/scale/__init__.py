"""Evaluation of many files, with checkpoints and on a Ray cluster.

* ``sharded``: ``evaluate_files``: files split into ranges and scored by an executor
* ``inputs``: the files, and their ranges of bytes and of rows
* ``index``: the index of records, and by id hashes the outputs that each batch reads
* ``checkpoint``: a folder of scores from which an evaluation resumes
* ``ray_executor``: the executor on a Ray cluster, and the code that its workers run
"""
