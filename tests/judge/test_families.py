"""The family of a model is recognised by its name."""

import pytest

from auepora_eval.judge.critic import model_family, model_names

ROWS = [  # name, family, why
    ("gpt-4o-mini", "gpt", "a version follows the name"),
    ("openai/gpt-4.1", "gpt", "a provider stands before the name"),
    ("o3-mini", "gpt", "a reasoning model without the name of its family"),
    ("text-davinci-003", "gpt", "an early name"),
    ("anthropic.claude-3-5-sonnet-20241022-v2:0", "claude", "the name a cloud gives"),
    ("models/Qwen2.5-7B-Instruct", "qwen", "a folder, in mixed case"),
    ("meta-llama/Llama-3.1-8B", "llama", "the organisation has the name too"),
    ("tiny_llama", "llama", "an underscore separates words"),
    ("google/gemma-2-9b-it", "gemini", "open models of the same developer and data"),
    ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "deepseek", "the first of two families"),
    ("EleutherAI/gpt-neox-20b", "eleuther", "the longer of two names at one place"),
    ("gpt2", "gpt", "a digit without a hyphen"),
    ("phi3:mini", "phi", "a tag follows"),
    ("philosophy-tutor", None, "the name goes on with letters"),
    ("megpt", None, "the name begins inside a word"),
    ("audio1", None, "o1 is inside a word"),
    ("my-system", None, "no model is named"),
    ("", None, "an empty name"),
]


@pytest.mark.parametrize(("name", "family"), [row[:2] for row in ROWS], ids=[row[2] for row in ROWS])
def test_family_of_a_model(name: str, family: str | None) -> None:
    assert model_family(name) == family


def test_models_named_in_a_description() -> None:
    described = {
        "model": "gpt-4o",
        "generator": {"llm_name": "claude-3"},
        "embedding_model": "qwen3-embedding",
        "prompt": "gemini",
        "stages": [{"Model": "phi3"}],
    }
    assert list(model_names(described)) == ["gpt-4o", "claude-3", "phi3"]
