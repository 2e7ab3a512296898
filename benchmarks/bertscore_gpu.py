"""BERTScore and SBERT over many pairs on a GPU, compared with a loop that works as bert-score does.

    python -m benchmarks.bertscore_gpu FOLDER [--pairs 100000]

FOLDER holds a MiniLM (weights, config.json, tokenizer); its weights may be float16. The peer is measured on a slice and
scaled, since it takes minutes.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from auepora_eval import EvaluationSample, Response, SystemOutputs, evaluate, metric

PEER_PAIRS = 20_000


def texts(tokenizer: Any, count: int, seed: int) -> list[str]:
    """Texts of 10 to 60 words that the tokenizer knows."""
    words = sorted(word for word in tokenizer.get_vocab() if word.isalpha() and len(word) > 2)
    rng = random.Random(seed)
    return [" ".join(rng.choices(words, k=rng.randint(10, 60))) for _ in range(count)]


def peer_bertscore(model: Any, tokenizer: Any, given: list[str], wanted: list[str], size: int = 64) -> Any:
    """As bert-score does it: different texts once, longest first, 64 at a time, vectors on the CPU, pairs padded."""
    import torch

    def padded(rows: list[Any]) -> Any:
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).cuda()

    distinct = sorted({*given, *wanted}, key=lambda text: len(text.split()), reverse=True)
    vectors: dict[str, Any] = {}
    found = []
    with torch.no_grad():
        for start in range(0, len(distinct), size):
            part = distinct[start : start + size]
            ids = [tokenizer.encode(text, truncation=True, max_length=512) for text in part]
            mask = padded([torch.ones(len(one), dtype=torch.long) for one in ids])
            states = model(padded([torch.tensor(one) for one in ids]), attention_mask=mask).last_hidden_state.cpu()
            vectors |= {text: states[row, : len(ids[row])] for row, text in enumerate(part)}
        for start in range(0, len(given), size):
            sides = [padded([vectors[text] for text in some[start : start + size]]) for some in (given, wanted)]
            there = [(side.abs().sum(-1) > 0).float() for side in sides]
            left, right = (side / (side.norm(dim=-1, keepdim=True) + 1e-9) for side in sides)
            cosines = torch.bmm(left, right.transpose(1, 2))
            precision = (cosines.amax(2) * there[0]).sum(1) / there[0].sum(1)
            recall = (cosines.amax(1) * there[1]).sum(1) / there[1].sum(1)
            found.append((2 * precision * recall / (precision + recall)).cpu())
    return torch.cat(found)


def peer_sbert(model: Any, given: list[str], wanted: list[str]) -> Any:
    """Plain ``encode`` of both sides, as its documentation shows it."""
    first, second = (model.encode(some, convert_to_tensor=True, normalize_embeddings=True) for some in (given, wanted))
    return (first * second).sum(1).cpu()


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and the result."""
    import torch

    torch.cuda.synchronize()
    begun = time.perf_counter()
    made = work()
    torch.cuda.synchronize()
    return time.perf_counter() - begun, made


def main() -> None:
    """Print pairs per second and ratios."""
    import numpy as np
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers import AutoModel, AutoTokenizer

    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--batch-size", type=int, default=16_384)
    asked = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(asked.folder)
    given, wanted = texts(tokenizer, asked.pairs, 0), texts(tokenizer, asked.pairs, 1)
    samples = [EvaluationSample(str(row), "q", reference_answer=Response(text)) for row, text in enumerate(wanted)]
    outputs = [SystemOutputs([], Response(text)) for text in given]
    few = min(PEER_PAIRS, asked.pairs)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {asked.pairs} pairs; the peer on {few}")

    model = AutoModel.from_pretrained(asked.folder, dtype=torch.float32).cuda().eval()
    peer_bertscore(model, tokenizer, given[:2000], wanted[:2000])
    seconds, theirs = timed(lambda: peer_bertscore(model, tokenizer, given[:few], wanted[:few]))
    rate = few / seconds
    print(f"a loop as bert-score's, float32: {rate:,.0f} pairs/s")
    for precision in ("float32", "float16"):
        built = metric("bertscore", model_type=asked.folder, num_layers=6, device="cuda", precision=precision)
        evaluate(samples[:2000], outputs[:2000], [built])
        for _ in range(2):
            seconds, results = timed(partial(evaluate, samples, outputs, [built], batch_size=asked.batch_size))
            ratio = asked.pairs / seconds / rate
            print(f"bertscore, {precision}: {asked.pairs / seconds:,.0f} pairs/s, {ratio:.1f} times")
        off = np.abs(np.array(list(results[0].scores))[:few] - theirs.numpy())
        print(f"  largest difference (special tokens weigh in the loop): {off.max():.4f}")

    sbert = SentenceTransformer(asked.folder, device="cuda")
    peer_sbert(sbert, given[:2000], wanted[:2000])
    seconds, theirs = timed(lambda: peer_sbert(sbert, given[:few], wanted[:few]))
    rate = few / seconds
    print(f"plain encode, float32: {rate:,.0f} pairs/s")
    for precision in ("float32", "float16"):
        built = metric("sbert_similarity", model=asked.folder, device="cuda", precision=precision)
        evaluate(samples[:2000], outputs[:2000], [built])
        seconds, results = timed(partial(evaluate, samples, outputs, [built], batch_size=asked.batch_size))
        ratio = asked.pairs / seconds / rate
        print(f"sbert_similarity, {precision}: {asked.pairs / seconds:,.0f} pairs/s, {ratio:.1f} times")


if __name__ == "__main__":
    main()
