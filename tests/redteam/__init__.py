"""The red team: 200 planted faults in results, and what the tool can know of each.

A row is a ``Fault``. To add one:

1. Choose the table of its family: ``fault_samples`` (topics, chunks, corpus), ``fault_outputs`` (lists, copies,
   failures, hostile texts), ``fault_chance`` (seeds, looks, many runs), ``fault_judges`` and ``fault_stores``.
2. Write a function that plants it: it gets a ``Bench``, which has an own store and a generator of random numbers, and
   returns the ``Pair`` that a user would compare: the baseline, the run, and the options of the command.
   The seed of the generator is a hash of the name of the row, so nobody picks it.
3. Append a ``Fault`` with a name of its own, the gates as a user writes them, and what the tool can know:

   * ``Stopped``: the gate is refused, fails or is inconclusive, with words of the reason,
   * ``FoundByVerify``: ``auepora verify`` of one of the runs exits with 1, with words of the difference,
   * ``Noted``: nothing tells it from an honest change, but the first screen names what is different,
   * ``Unseen``: nothing in the data reveals it.

   The first two are detectable. A gate is green if the gates pass and ``auepora verify`` finds no difference in both
   runs; a detectable fault never has a green gate. For the last two the rate of green gates is measured, with
   ``trials`` where the fault is random, and the reason says why it cannot be known.
4. Write the page again: ``cd tests && python -m redteam.page``. The tests compare each row with its line there.
"""
