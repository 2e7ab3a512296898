"""Perturbed queries and perturbed documents, as recorded for given seeds."""

import asyncio
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest

from auepora_eval import (
    AueporaError,
    Document,
    EvaluationSample,
    PerturbedRetriever,
    Response,
    RetrievedDocument,
    RunStore,
    perturb_queries,
)
from auepora_eval.io.codec import encode_output, encode_sample
from auepora_eval.perturb.queries import Paraphraser
from helpers.golden import GOLDEN, check_golden, check_golden_text

Auepora = Callable[..., tuple[int, str, str]]

QUERIES = GOLDEN / "perturb" / "queries.jsonl"
"""Samples whose queries are in many scripts. Written by hand; no test records it."""


def rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


# --- queries ---------------------------------------------------------------------------------------------------------

EVERY_KIND = (
    "--typo 0.1 --keyboard 0.1 --drop-words 0.3 --swap-words 0.3 "
    "--case lower --case upper --case random --no-punctuation"
)
# Options of the command, and of how many rows every one is taken.
COMMANDS: dict[str, tuple[str, int]] = {
    "every_kind_seed_0": (f"{EVERY_KIND} --seed 0", 1),
    "azerty_seed_7": (
        "--typo 0.3 --keyboard 0.3 --layout azerty --drop-words 0.5 --swap-words 1 --case random=0.2 "
        "--keep-numbers --variants 2 --seed 7",
        3,
    ),
    "qwertz_seed_-5": ("--typo 1 --keyboard 1 --layout qwertz --swap-words 0.01 --seed -5", 4),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_perturbed_queries(name: str, auepora: Auepora, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options, every = COMMANDS[name]
    chosen = rows(QUERIES)[::every]
    write("data.jsonl", chosen)
    code, out, _ = auepora("perturb", "data.jsonl", "-o", "out.jsonl", "--only-variants", *options.split(), "--json")
    assert code == 0
    variants: dict[str, dict[str, str]] = {}
    for row in rows(Path("out.jsonl")):
        base, kind = row["sample_id"].rsplit("~", 1)
        variants.setdefault(base, {})[kind] = row["query"]
    lines = [json.dumps({"id": base, **texts}, ensure_ascii=False) for base, texts in variants.items()]
    check_golden_text(f"perturb/{name}.jsonl", "\n".join(lines) + "\n")
    check_golden(f"perturb/{name}_counts.json", json.loads(out))


def test_samples_with_their_variants(auepora: Auepora, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ids = ("latin-1", "latin-2", "emoji-1", "variant-1", "no-query")
    write("data.jsonl", [row for row in rows(QUERIES) if row["sample_id"] in ids])
    made: dict[str, Any] = {}
    for name, options in {
        "samples and variants": f"{EVERY_KIND} --variants 2 --seed 3",
        "variants of variants": "--typo 0.2 --variants-too --seed 3",
        "nothing to do": "--typo 0",
        "no kind": "--seed 3",
        "layout alone": "--layout azerty --typo 0.1",
        "rate above 1": "--typo 1.5",
        "unknown case": "--case title",
        "own perturber": "--with golden_perturber:reversed_words --seed 3",
    }.items():
        Path("golden_perturber.py").write_text(
            "def reversed_words(query, rng):\n    return ' '.join(reversed(query.split())) + str(rng.randrange(1000))\n",
            encoding="utf-8",
        )
        forget(monkeypatch, "golden_perturber")
        code, out, _ = auepora("perturb", "data.jsonl", "-o", "out.jsonl", *options.split(), "--json")
        made[name] = {"exit": code, "done": json.loads(out) if out else None}
        if code == 0:
            made[name]["samples"] = rows(Path("out.jsonl"))
            Path("out.jsonl").unlink()
    check_golden("perturb/samples_with_variants.json", made)


def test_perturbers_of_a_user() -> None:
    samples = [EvaluationSample(f"q{number}", f"question {number} of 3?") for number in range(3)]

    def shuffled(query: str, rng: Random) -> str:
        words = query.split()
        rng.shuffle(words)
        return " ".join(words)

    def failing(query: str, rng: Random) -> str:
        if "1" in query:
            raise ValueError("cannot do 1")
        return query if "0" in query else ""

    async def later(query: str, rng: Random) -> str:
        await asyncio.sleep(0)
        return f"{query} {rng.random()!r}"

    class Batch:
        name = "batch.of-all"
        scenario = ("typo", "mine")

        def perturb(self, query: str, rng: Random) -> str:
            raise AssertionError("not called where there is a batch")

        def perturb_batch(self, queries: list[str], rngs: list[Random]) -> list[Any]:
            made = [f"{query}{rng.randint(0, 9)}" for query, rng in zip(queries, rngs, strict=True)]
            return [*made[:2], None]

    prompts: list[str] = []

    def model(prompt: str) -> str:
        prompts.append(prompt)
        return ' "reworded" ' if "0" in prompt else "„so“" if "1" in prompt else "«x» y"

    made = perturb_queries(samples, [shuffled, failing, later, Batch(), Paraphraser(model)], seed=11, variants=2)
    counts = {
        name: [one.made, one.unchanged, one.repeated, one.failed, one.failure] for name, one in made.counts.items()
    }
    check_golden(
        "perturb/perturbers_of_a_user.json",
        {"samples": [json.loads(encode_sample(one)) for one in made], "counts": counts, "prompts": prompts},
    )


def write(name: str, lines: list[dict[str, Any]]) -> None:
    """A JSONL file in the current folder."""
    Path(name).write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in lines), encoding="utf-8")


def forget(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """Have a module, and the folder it is in, gone after the test."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, module, ModuleType(module))
    del sys.modules[module]


# --- documents -------------------------------------------------------------------------------------------------------

CITIES = ["Athens", "Peking", "London", "Rio de Janeiro", "Tokyo", "Paris"]


def corpus() -> list[Document]:
    """A document on each city with its answer, and others."""
    gold = [
        Document(f"g{n}", f"The games of year {n} were in {city}. {city.upper()}!", {"n": n}, f"p{n % 4}")
        for n, city in enumerate(CITIES)
    ]
    return [*gold, *(Document(f"x{n}", f"Weather report {n}; nothing on games.", {}, f"w{n // 2}") for n in range(10))]


def city_samples() -> list[EvaluationSample]:
    """Questions on the cities; one has only the id of a whole document as gold, one has none."""
    made = [
        EvaluationSample(
            f"s{n}",
            f"Where were the games of year {n}?",
            [corpus()[n], Document("x1", metadata={"relevance": 2 if n == 2 else 0})],
            None,
            Response(f"{city}."),
            labels={"lang": "en"},
            metadata={"wrong_answer": "Atlantis" if n != 1 else ["", "El Dorado"]},
        )
        for n, city in enumerate(CITIES)
    ]
    made[4] = EvaluationSample(
        "s4", made[4].query, None, None, Response("Tokyo"), metadata={"expected_doc_ids": ["p0"]}
    )
    made[5] = EvaluationSample("s5", made[5].query, [])
    return made


class Finder:
    """Ranks the documents of the corpus by the year in the query, then by id."""

    def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        """The best documents."""
        year = int(query.rstrip("?").split()[-1])
        best = sorted(corpus(), key=lambda one: (abs(one.metadata.get("n", 9) - year), one.doc_id))
        return [RetrievedDocument(one, 1.0 / rank, rank) for rank, one in enumerate(best[:top_k], 1)]


DOCUMENT_CASES: dict[str, dict[str, Any]] = {
    **{
        f"{kind}={rate}, seed {seed}": {kind: rate, "seed": seed}
        for kind in ("noise", "drop", "counterfactual", "empty", "shuffle", "duplicate")
        for rate, seed in ((0.5, 0), (0.5, 7), (1.0, 0), (0.25, 123456789))
    },
    "everything, seed 5": {
        "noise": 0.4,
        "drop": 0.3,
        "counterfactual": 0.9,
        "shuffle": 0.6,
        "duplicate": 0.3,
        "seed": 5,
    },
    "arm none": {"arm": "none"},
    "arm original": {"arm": "original"},
    "arm edited": {"arm": "edited", "seed": 2},
    "rate 0": {"noise": 0.0},
}
BAD_DOCUMENT_CASES: dict[str, dict[str, Any]] = {
    "rate above 1": {"noise": 1.5},
    "rate is a text": {"drop": "much"},
    "rate is true": {"shuffle": True},
    "seed is a text": {"noise": 0.5, "seed": "x"},
    "unknown arm": {"arm": "edit"},
    "arm and rate": {"arm": "none", "noise": 0.5},
    "nothing to draw from": {"noise": 0.5, "corpus": []},
}


def test_perturbed_documents() -> None:
    samples = city_samples()
    made: dict[str, Any] = {}
    for name, options in DOCUMENT_CASES.items():
        retriever = PerturbedRetriever(Finder(), samples=samples, corpus=corpus(), **options)
        lists = {one.sample_id: retriever.retrieve(one.query, top_k=6) for one in samples}
        made[name] = {
            sample_id: [
                " ".join(f"{item.doc.doc_id}:{item.rank}:{item.score:.3g}" for item in found),
                edited_texts(found),
            ]
            for sample_id, found in lists.items()
        }
        made[name]["done"] = retriever.done
    samples_pool = PerturbedRetriever(Finder(), samples=samples, noise=0.5, seed=1)
    made["noise from the samples' documents"] = {
        one.sample_id: [item.doc.doc_id for item in samples_pool.retrieve(one.query, top_k=4)] for one in samples
    }
    edited = PerturbedRetriever(
        Finder(), samples=samples, counterfactual=0.7, seed=1, edit=lambda one, doc: f"Not {one.sample_id}: {doc.text}"
    )
    made["edited by a function"] = {
        one.sample_id: [item.doc.text for item in edited.retrieve(one.query, top_k=2)] for one in samples
    }
    made["of no sample"] = [item.doc.doc_id for item in samples_pool.retrieve("Where in year 3?", top_k=4)]
    made["errors"] = {name: error_of(samples, options) for name, options in BAD_DOCUMENT_CASES.items()}
    check_golden("perturb/documents.json", made)


def edited_texts(found: list[RetrievedDocument]) -> dict[str, str]:
    """The texts that are not those of the corpus, by the id of the document."""
    texts = {one.doc_id: one.text for one in corpus()}
    return {item.doc.doc_id: item.doc.text for item in found if item.doc.text != texts[item.doc.doc_id]}


def error_of(samples: list[EvaluationSample], options: dict[str, Any]) -> str | None:
    """The class of the error that a retriever of these options raises."""
    try:
        PerturbedRetriever(Finder(), samples=samples, **{"corpus": corpus(), **options})
    except AueporaError as error:
        return type(error).__name__
    return None


SYSTEM = '''
import json
from pathlib import Path
from auepora_eval import Document, Response, RetrievedDocument

CORPUS = [Document(**json.loads(line)) for line in Path(__file__).with_name("corpus.jsonl").read_text().splitlines()]

class System:
    """Finds the documents whose ids end with the year, then the others, and repeats what the first one says."""
    def retrieve(self, query, *, top_k):
        year = query.rstrip("?").split()[-1]
        best = sorted(CORPUS, key=lambda one: (not one.doc_id.endswith(year), one.doc_id))
        return [RetrievedDocument(one, 1.0 / rank, rank) for rank, one in enumerate(best[:top_k], 1)]

    def generate(self, query, documents):
        return Response(documents[0].text.split(" were in ")[-1].split(".")[0] if documents else "I do not know.")
'''
SWEEPS = ("noise=0,0.5,1", "drop=0,1", "counterfactual=0,0.5,1", "arms=none,original,edited", "shuffle=1,0")
BAD_SWEEPS = ("noise", "nois=0,1", "noise=", "noise=0,2", "noise=0,0", "arms=none,all", "noise=a")


@pytest.mark.slow
def test_sweeps(auepora: Auepora, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    forget(monkeypatch, "golden_perturb_system")
    Path("golden_perturb_system.py").write_text(SYSTEM, encoding="utf-8")
    documents = [{"doc_id": one.doc_id, "text": one.text, "parent_id": one.parent_id} for one in corpus()]
    write("corpus.jsonl", documents)
    write("data.jsonl", [json.loads(encode_sample(one)) for one in city_samples()])
    plan = {
        "version": 1,
        "dataset": "data.jsonl",
        "system": {"python": "golden_perturb_system:System"},
        "metrics": ["recall@3", "token_f1"],
        "run": {"top_k": 3, "seed": 4},
    }
    Path("plan.yaml").write_text(json.dumps(plan), encoding="utf-8")
    made: dict[str, Any] = {}
    for sweep in (*SWEEPS, *BAD_SWEEPS):
        store = Path(f"{sweep}.sqlite")
        arguments = (
            ("--store", str(store), "--perturb-corpus", "corpus.jsonl")
            if sweep.startswith("noise")
            else ("--store", str(store))
        )
        code, out, _ = auepora("run", "plan.yaml", "--perturb", sweep, *arguments, "--json", "-q")
        made[sweep] = {"exit": code}
        if out:
            made[sweep]["curve"] = json.loads(out)
        if store.exists():
            with RunStore.open(store) as opened:
                made[sweep]["runs"] = sorted((stored(opened, one.run_id) for one in opened.runs()), key=place_of)
    # Ids of runs and of sweeps are made of the time.
    text = re.sub(r"\b(run_)?0[0-9A-Z]{25}\b", r"\1ID", json.dumps(made))
    check_golden("perturb/sweeps.json", json.loads(text))


def stored(store: RunStore, run_id: str) -> dict[str, Any]:
    """What a store holds of a perturbed run, without ids and times, which differ each time."""
    record = store.get(run_id)
    return {
        "name": record.name,
        "tags": list(record.tags),
        "perturbation": record.plan["perturbation"],
        "samples": [changed(one) for one in store.samples(run_id)],
        "outputs": [output_of(json.loads(encode_output(row.sample_id, row.output))) for row in store.outputs(run_id)],
    }


def place_of(run: dict[str, Any]) -> int:
    """Which of the levels of its sweep a run is of; the run of all arms together comes last."""
    levels: list[Any] = run["perturbation"]["levels"]
    return levels.index(run["perturbation"]["level"]) if "level" in run["perturbation"] else len(levels)


def changed(one: EvaluationSample) -> dict[str, Any]:
    """What a perturbation may change of a sample."""
    return {"id": one.sample_id, "labels": one.labels, "metadata": one.metadata, "cluster": one.cluster_id}


def output_of(row: dict[str, Any]) -> dict[str, Any]:
    """An output without its times, and of its documents only the ids."""
    ids = [one["doc"]["doc_id"] for one in row["retrieved"]]
    return {"id": row["sample_id"], "ids": ids, "answer": row["response"]["text"], "extra": row["extra"]}
