"""Models that turn texts into numbers: found, loaded once, and asked about many texts at a time.

devices          where a model runs, and how exactly it computes
models           models by path or name: found without a network, loaded once, known by what is in them
encoding         texts as tokens, sorted by length, in batches that fit the memory
layers           where a model keeps its layers, and the first of them alone
sentences        vectors of texts by a sentence-transformers model
pairs            numbers for pairs of texts by a sequence classifier: cross-encoders, entailment
token_encoder    vectors of a text's tokens, from one layer of a model
greedy_matching  each token with the nearest one of another text
bertscore        BERTScore's best layers, weights of tokens, baselines
vector_cache     vectors kept on disk, by model and text
embedders        whatever makes vectors: a function, a model, an endpoint, as plans and Python name it
endpoint         vectors from an OpenAI-compatible endpoint
"""
