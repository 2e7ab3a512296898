"""Mechanisms written by hand compared with the library that could replace each (``docs/dependencies.md``).

    python -m benchmarks.dependencies [--sizes]

Prints Markdown. Libraries that are not installed are left out. ``--sizes`` installs each library into a temporary
folder and prints its size with everything it brings along, which takes some minutes and needs a package index.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from auepora_eval.judge.cache import JudgementCache
from auepora_eval.judge.critic import Judgement, JudgeRequest, Usage
from auepora_eval.render.charts import interval_chart
from auepora_eval.stats.intervals import t_quantile
from auepora_eval.text.tokenizers import porter_stem

from .made_texts import make_texts
from .timing import best_times

LIBRARIES = (
    "scipy", "matplotlib", "altair vl-convert-python", "nltk", "snowballstemmer", "diskcache", "rich", "pydantic",
    "cattrs", "aiohttp", "httpx", "pandas", "polars", "pyarrow", "json-repair",
)  # fmt: skip
ROUNDS = 5
Row = tuple[str, str, float, float, str]
"""Mechanism, library, seconds of ours, seconds of the library, and what was compared."""


def print_table(heads: list[str], rows: list[list[str]]) -> None:
    print(f"\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def compare(ours: Callable[[], object], theirs: Callable[[], object]) -> tuple[float, float]:
    best = best_times({"ours": ours, "theirs": theirs}, {"ours": ROUNDS, "theirs": ROUNDS})
    return best["ours"], best["theirs"]


def stemmers() -> Iterator[Row]:
    """Distinct words, which is what the vocabulary stems."""
    answers, _, _ = make_texts(4_000)
    words = sorted({word.lower() for text in answers for word in text.split() if word.isalpha()})
    plain = porter_stem.__wrapped__  # without its cache
    if find_spec("nltk"):
        from nltk.stem.porter import PorterStemmer

        nltk = PorterStemmer()
        assert [plain(word) for word in words] == [nltk.stem(word) for word in words]
        times = compare(lambda: [plain(word) for word in words], lambda: [nltk.stem(word) for word in words])
        yield "Porter stemmer", "nltk", *times, f"{len(words):,} words, equal stems"
    if find_spec("snowballstemmer"):
        import snowballstemmer

        snowball = snowballstemmer.stemmer("porter")
        equal = sum(plain(word) == snowball.stemWord(word) for word in words)
        times = compare(lambda: [plain(word) for word in words], lambda: snowball.stemWords(words))
        yield "Porter stemmer", "snowballstemmer", *times, f"{equal / len(words):.1%} of the stems equal nltk's"


def quantiles() -> Iterator[Row]:
    if not find_spec("scipy"):
        return
    from scipy import stats

    rng, quantile = random.Random(0), t_quantile.__wrapped__  # without its cache
    cases = [(rng.uniform(1e-4, 0.4), rng.randint(1, 2_000)) for _ in range(500)]
    wrong = max(abs(quantile(tail, n) / stats.t.isf(tail, n) - 1) for tail, n in cases)
    times = compare(
        lambda: [quantile(tail, n) for tail, n in cases], lambda: [stats.t.isf(tail, n) for tail, n in cases]
    )
    yield "quantiles of Student's t", "scipy", *times, f"{len(cases)} quantiles, relative difference {wrong:.0e}"


def caches(folder: Path) -> Iterator[Row]:
    if not find_spec("diskcache"):
        return
    import diskcache

    class Critic:
        name = "critic"

    count = 5_000
    request = JudgeRequest("text", {}, prompt_id="p")
    judgement = Judgement({"verdict": "yes"}, Usage(100, 10), '{"verdict": "yes"}')
    keys = [random.Random(n).randbytes(32) for n in range(count)]
    own = JudgementCache(folder / "own.sqlite")
    for key in keys:
        own.put(key, Critic(), request, judgement)  # type: ignore[arg-type]
    own.flush(wait=True)
    other = diskcache.Cache(str(folder / "diskcache"))
    row = json.dumps(judgement.answer)
    with other.transact():
        for key in keys:
            other.set(key, (row, judgement.raw, 100, 10))
    times = compare(lambda: [own.get(key) for key in keys], lambda: [other.get(key) for key in keys])
    own.close()
    other.close()
    yield "judgement cache", "diskcache", *times, f"{count:,} lookups"


def charts() -> Iterator[Row]:
    if not find_spec("vl_convert"):
        return
    import vl_convert

    rng = random.Random(0)
    values = [rng.uniform(0.2, 0.8) for _ in range(20)]
    chart = interval_chart(
        [{"name": f"metric {n}", "value": one, "low": one - 0.1, "high": one + 0.1} for n, one in enumerate(values)]
    )
    spec = json.loads(json.dumps(dict(chart.spec)))
    times = compare(chart.to_svg, lambda: vl_convert.vegalite_to_svg(spec))
    yield "SVG charts", "vl-convert", *times, "the same spec of twenty intervals"


def print_sizes() -> None:
    rows = []
    for names in LIBRARIES:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, *names.split()]
            if subprocess.run(command, check=False, capture_output=True).returncode:
                rows.append([names, "not installed", ""])
                continue
            size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
            count = sum(1 for _ in Path(folder).glob("*.dist-info"))
            rows.append([names, f"{size / 1e6:,.0f}", str(count)])
    print_table(["library", "MB", "distributions"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", action="store_true", help="install each library to measure its size")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [*stemmers(), *quantiles(), *caches(Path(folder)), *charts()]
    heads = ["mechanism", "library", "ours, ms", "library, ms", "times as long", "compared"]
    print_table(
        heads,
        [
            [what, library, f"{1e3 * ours:.2f}", f"{1e3 * theirs:.2f}", f"{theirs / ours:.1f}", note]
            for what, library, ours, theirs, note in rows
        ],
    )
    if options.sizes:
        print_sizes()


if __name__ == "__main__":
    main()
