"""Families of language models, recognised by the name of a model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_FAMILIES = {
    "gpt": ("chatgpt", "gpt", r"text-(?:davinci|curie|babbage|ada)", "davinci", "codex", r"o[134](?=-|:|$)"),
    "claude": ("claude",),
    "gemini": ("gemini", "gemma", "medgemma", "codegemma", "palm"),  # Gemma is made from the research of Gemini
    "llama": ("llama", "codellama", "tinyllama", "vicuna", "alpaca"),
    "mistral": ("mistral", "mixtral", "ministral", "magistral", "codestral", "devstral", "pixtral", "zephyr"),
    "qwen": ("qwen", "codeqwen", "qwq", "qvq"),
    "deepseek": ("deepseek",),
    "command": ("command-(?:r|a|light|nightly)", "command(?=$|:)", "c4ai", "aya"),
    "phi": ("phi",),
    "nova": ("nova", "titan"),
    "grok": ("grok",),
    "glm": ("glm", "chatglm"),
    "kimi": ("kimi", "moonshot"),
    "granite": ("granite",),
    "falcon": ("falcon",),
    "olmo": ("olmo", "olmoe", "tulu"),
    "smollm": ("smollm",),
    "nemotron": ("nemotron",),
    "jamba": ("jamba",),
    "ernie": ("ernie",),
    "hunyuan": ("hunyuan",),
    "minimax": ("minimax",),
    "internlm": ("internlm",),
    "baichuan": ("baichuan",),
    "yi": ("yi",),
    "eleuther": ("gpt-?(?:j|neox?)", "pythia"),
    "t5": ("t5", "flan-t5", "flan"),
}
# A name begins after a character that is no letter or digit; a version may follow it, further letters may not.
_NAMES = {
    family: re.compile(rf"(?<![a-z0-9])(?:{'|'.join(names)})(?![a-z])", re.ASCII) for family, names in _FAMILIES.items()
}


def model_family(name: str) -> str | None:
    """The family of a model by its name (``openai/gpt-4o-mini`` is ``gpt``), or ``None`` if it is not known.

    Models of a family have their training in common, so a judge may prefer answers of its own family. A name with two
    families (``DeepSeek-R1-Distill-Qwen-7B``) belongs to the first one it names; of two that begin at the same place,
    to the longer (``gpt-neox`` is ``eleuther``).
    """
    text = name.lower().replace("_", "-")
    matches = ((family, pattern.search(text)) for family, pattern in _NAMES.items())
    places = [(match.start(), -match.end(), family) for family, match in matches if match is not None]
    return min(places)[2] if places else None


_MODEL_KEYS = re.compile(r"model|llm|generator|deployment")
_OTHER_KEYS = re.compile(r"embed|rerank")  # models that write no answers


def model_names(described: object, key: str = "") -> Iterator[str]:
    """The names of language models in a description of a system: strings under keys such as ``model`` and ``llm``."""
    if isinstance(described, Mapping):
        for name, one in described.items():
            yield from model_names(one, str(name).lower())
    elif isinstance(described, (list, tuple)):
        for one in described:
            yield from model_names(one, key)
    elif isinstance(described, str) and _MODEL_KEYS.search(key) and not _OTHER_KEYS.search(key):
        yield described
