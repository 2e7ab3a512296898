"""Text as the overlap metrics see it: from a string to words, and from two lists of words to what they share.

===========  ==================================================================================================
``tokens``   ``rouge_tokens``: a text as the words ROUGE counts, equal to the ``rouge-score`` package
``stem``     ``porter_stem``: one word to its stem, equal to nltk's ``PorterStemmer()``
``lcs``      ``lcs_length``: the length of the longest common subsequence, many table cells per step
===========  ==================================================================================================

These modules rest on the standard library alone: nltk takes a moment to import and nobody should wait for it to read
``--help``. The packages named above are oracles in the tests.
"""
