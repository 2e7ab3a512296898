"""Text processing for the overlap metrics: tokenizers, vocabularies, n-grams, sentences and refusals.

* ``tokenizers``: tokenizers of SQuAD, ROUGE, BLEU and chrF: a plain definition each, and a fast form for
  many texts; ``porter_stem``, equal to nltk's ``PorterStemmer()``
* ``scripts``: scripts without spaces between words, and their tokens
* ``vocabulary``: tokens of many texts as integer ids
* ``ngrams``: shared, supported and distinct n-grams; the longest common subsequence
* ``sentences``: sentence splitting, and citations of sentences
* ``refusal``: phrases that decline to answer, by language

These modules need only the standard library, numpy and rapidfuzz: nltk is slow to import, and ``--help`` should be
fast. rouge-score, sacrebleu and nltk are oracles in the tests.
"""
