"""Local models and embedding endpoints for semantic metrics: loading, tokenising, encoding in batches.

devices          device and precision of a model
models           models by path or hub name: loaded once, identified by a fingerprint of their files
encoding         tokenising, and batches sorted by length that fit into memory
layers           models truncated to their first layers
sentences        vectors of texts by a sentence-transformers model
pairs            scores of text pairs by a sequence classifier: cross-encoders, NLI models
token_encoder    vectors of a text's tokens, from one layer of a model
greedy_matching  the most similar token of another text for each token
bertscore        BERTScore's best layers, weights of tokens, baselines
vector_cache     vectors on disk, by model and text
embedders        embedding functions, models and endpoints, as plans and Python describe them
endpoint         vectors from an OpenAI-compatible endpoint
"""
