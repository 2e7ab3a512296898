"""Processes, threads, files and secrets, independent of samples, metrics and runs.

* ``files``: reading with clear errors, compression, atomic writes, SQLite files
* ``imports``: objects of the user's code by import path
* ``processes``: identity of processes, set-up of workers, garbage collection, daemon threads, event loops in threads
* ``secrets``: detection and redaction of secrets
"""
