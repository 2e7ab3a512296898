"""Text as the overlap metrics see it: from a string to words, and from two lists of words to what they share.

=============  ================================================================================================
``cutting``    what a word is, rule by rule: SQuAD's, ROUGE's, BLEU's; plainly, and for many texts at once
``tokens``     ``rouge_tokens``: a text as the words ROUGE counts, equal to the ``rouge-score`` package
``stem``       ``porter_stem``: one word to its stem, equal to nltk's ``PorterStemmer()``
``stopwords``  words that carry structure rather than content
``folding``    texts compared whatever their case, composition and white space
``refusal``    what people and models say when they decline to answer, by language
``coding``     words as numbers, many texts at once
``numbering``  dense numbers for 64-bit keys, which the two around it rest on
``ngrams``     what two columns of texts share, what evidence supports, what is distinct
``lcs``        the longest common subsequence, of one pair or of a column of pairs
=============  ================================================================================================

These modules rest on the standard library, numpy and rapidfuzz: nltk takes a moment to import and nobody should wait
for it to read ``--help``. The packages named above are oracles in the tests.
"""
