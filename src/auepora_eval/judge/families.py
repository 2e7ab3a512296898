"""Families of language models, recognised by the name of a model."""

from __future__ import annotations

import re

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
