"""From JSONL files to numbers: decoding against the standard library, and a million samples in little memory."""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs, evaluate
from auepora_eval.io.jsonl import load_jsonl_dataset, load_jsonl_outputs

from .timing import best_times

METRICS = ["recall@5", "recall@10", "mrr", "ndcg@10", "map", "exact_match", "token_f1", "rougeL_answer"]
WORDS = [f"word{n}" for n in range(5000)]


def write_files(folder: Path, count: int) -> tuple[Path, Path]:
    """Samples with gold and a short reference, outputs with ten retrieved ids and a short answer."""
    rng = random.Random(0)
    samples, outputs = folder / f"samples{count}.jsonl", folder / f"outputs{count}.jsonl"
    with samples.open("w") as first, outputs.open("w") as second:
        for n in range(count):
            ids = rng.sample(range(count * 3), 10)
            answer = rng.choices(WORDS, k=rng.randint(3, 12))
            wanted = [*answer[: rng.randint(1, len(answer))], rng.choice(WORDS)]
            gold = [f"doc{i}" for i in rng.sample(ids, 2)]
            row = {
                "sample_id": f"q{n}",
                "query": " ".join(rng.choices(WORDS, k=7)),
                "relevant_docs": [{"doc_id": i} for i in gold],
                "reference_answer": {"text": " ".join(wanted)},
            }
            first.write(json.dumps(row) + "\n")
            ranking = [{"doc": {"doc_id": f"doc{i}"}, "score": round(rng.random(), 4)} for i in ids]
            output = {"sample_id": f"q{n}", "retrieved": ranking, "response": {"text": " ".join(answer)}}
            second.write(json.dumps(output) + "\n")
    return samples, outputs


def by_hand(samples: Path, outputs: Path) -> tuple[list[EvaluationSample], dict[str, SystemOutputs]]:
    """The plain way: ``json.loads`` and constructors, no checks."""
    rows, given = [], {}
    with samples.open() as lines:
        for line in lines:
            row = json.loads(line)
            docs = [Document(d["doc_id"], d.get("text", ""), d.get("metadata", {})) for d in row["relevant_docs"]]
            answer = Response(row["reference_answer"]["text"])
            rows.append(EvaluationSample(row["sample_id"], row["query"], docs, reference_answer=answer))
    with outputs.open() as lines:
        for line in lines:
            row = json.loads(line)
            ranking = [
                RetrievedDocument(Document(r["doc"]["doc_id"], r["doc"].get("text", "")), r.get("score"), rank)
                for rank, r in enumerate(row["retrieved"], 1)
            ]
            given[row["sample_id"]] = SystemOutputs(ranking, Response(row["response"]["text"]))
    return rows, given


def compare_decoding(folder: Path, count: int) -> None:
    samples, outputs = write_files(folder, count)
    ours = lambda: (load_jsonl_dataset(samples), load_jsonl_outputs(outputs))  # noqa: E731
    contenders = {"ours": ours, "json.loads by hand": lambda: by_hand(samples, outputs)}
    best = best_times(contenders, dict.fromkeys(contenders, 5))
    size = (samples.stat().st_size + outputs.stat().st_size) / 1e6
    print(f"{count:,} samples and outputs, {size:.0f} MB:", end=" ")
    print(", ".join(f"{name} {seconds:.2f} s" for name, seconds in best.items()), end="; ")
    print(f"ours is {best['json.loads by hand'] / best['ours']:.1f} times as fast")


def score_files(samples: Path, outputs: Path, *options: str) -> tuple[float, float]:
    """Seconds and peak megabytes of the command in a process of its own."""
    named = [part for metric in METRICS for part in ("-m", metric)]
    command = [sys.executable, "-m", "auepora_eval", "score", str(samples), str(outputs), *named, "--json", *options]
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def in_memory(samples: Path, outputs: Path) -> float:
    """Seconds of decoding everything and scoring it, in this process."""
    start = time.perf_counter()
    rows, given = list(load_jsonl_dataset(samples)), load_jsonl_outputs(outputs)
    evaluate(rows, [given[row.sample_id] for row in rows], METRICS)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data")
    quick = parser.parse_args().quick
    count = 100_000 if quick else 1_000_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compare_decoding(folder, count // 50)
        small = write_files(folder, count // 5)
        large = write_files(folder, count)
        for what, options in (("scores kept", ()), ("--lean", ("--lean",))):
            for files, n in ((small, count // 5), (large, count)):
                seconds, megabytes = score_files(*files, *options)
                print(f"{n:,} samples, {what}: {seconds:.1f} s, {megabytes:.0f} MB at most")
        tenth = write_files(folder, count // 10)
        streamed = min(score_files(*tenth)[0] for _ in range(2))
        whole = min(in_memory(*tenth) for _ in range(2))
        print(
            f"{count // 10:,} samples: streamed {streamed:.1f} s, decoded and scored in memory {whole:.1f} s,", end=" "
        )
        print(f"{streamed / whole:.2f} times (with starting Python, about half a second)")
    print(f"this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB at most")


if __name__ == "__main__":
    main()
