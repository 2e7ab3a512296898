"""Processes, threads, files and secrets, independent of samples, metrics and runs.

* ``files``: reading with clear errors, compression, atomic writes, SQLite files
* ``imports``: objects of the user's code by import path
* ``line_process``: programs that read and write lines, ended with their child processes
* ``processes``: identity of processes, set-up of workers, garbage collection, daemon threads, event loops in threads
* ``secrets``: detection and redaction of secrets
* ``signals``: Ctrl-C, SIGTERM and SIGHUP
* ``sockets``: sockets that listen
* ``terminals``: terminals

What differs between Linux, macOS and Windows is here and in no other package: ``tests/project/test_platforms.py``.
"""
