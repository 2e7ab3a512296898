"""The length of the longest common subsequence of two sequences, a whole table row at a time in one integer.

The textbook table has a row per item of one sequence and a column per item of the other; a cell holds the LCS length
of the two prefixes. Along a row the numbers start at 0 and grow by 0 or 1 per column, so a row is known by *where* it
grows: one bit per column, and the LCS is the number of places where the last row grows. Going to the next row is then
an addition on long integers (Crochemore et al. 2001; Hyyrö, "Bit-parallel LCS-length computation revisited", 2004),
some thirty cells per machine operation instead of one per turn of a Python loop.
"""

from collections.abc import Hashable, Sequence

__all__ = ["lcs_length"]


def lcs_length(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """The most items that occur in the same order in ``a`` and in ``b``; items are equal as dictionary keys are."""
    columns, rows = (a, b) if len(a) <= len(b) else (b, a)  # masks cost columns squared: keep them few
    masks: dict[Hashable, int] = {}
    for column, item in enumerate(columns):
        masks[item] = masks.get(item, 0) | 1 << column

    # A set bit is a column where the row does not grow. Before the first item of `rows` none does.
    every = (1 << len(columns)) - 1
    flat = every
    for item in rows:
        if mask := masks.get(item):
            # Cut the row into blocks, each a run of flat columns up to and with the next one that grows. A match in a
            # block lets the row grow at the first matching column instead. The sum does this to all blocks at once:
            # the match's bit turns to 0 and its carry runs up to set the bit that ended the block. The difference
            # brings back the flat columns the carry passed. A carry out of the last block is an LCS longer by one.
            matches = flat & mask
            flat = ((flat + matches) | (flat - matches)) & every
    return len(columns) - flat.bit_count()
