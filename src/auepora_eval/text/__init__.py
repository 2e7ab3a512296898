"""Text processing for the overlap metrics: tokenizers, vocabularies, n-grams, sentences and refusals.

================  =============================================================================================
``tokenizers``    tokenizers of SQuAD, ROUGE, BLEU and chrF; a plain definition each, and a fast form for many texts
``rouge_tokens``  the tokens of ROUGE, equal to the ``rouge-score`` package
``stem``          ``porter_stem``, equal to nltk's ``PorterStemmer()``
``stopwords``     words that carry structure rather than content
``casefolding``   normalisation of case, Unicode composition and white space for comparison
``sentences``     sentence splitting
``citation_marks``  citations in answers
``refusal``       phrases that decline to answer, by language
``vocabulary``    tokens of many texts as integer ids
``id_table``      a vectorised hash table from 64-bit keys to consecutive ids
``ngrams``        shared, supported and distinct n-grams of many texts
``lcs``           the longest common subsequence of one pair or of many pairs
================  =============================================================================================

These modules need only the standard library, numpy and rapidfuzz: nltk is slow to import, and ``--help`` should be
fast. The packages named above are oracles in the tests.
"""
