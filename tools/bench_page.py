"""The page of published benchmarks and the figure of the README, from their entries:  python -m tools.bench_page."""

from __future__ import annotations

import re
from pathlib import Path

from auepora_eval.bench.entries import MARKS, Benchmark, Part, all_benchmarks
from auepora_eval.bench.pages import differences, licence_text, source_text, spec_text
from auepora_eval.render.markdown import escape_markdown, markdown_table

PAGE = Path(__file__).parent.parent / "docs" / "bench.md"

_OPENING = """# Published benchmarks

Generated from the entries in `src/auepora_eval/bench/entries` by `make docs`.

Each benchmark of the survey's table is one command. It reads the benchmark's own files and computes the numbers of
its published script; where a convention of that script is doubtful, our safer variant stands beside the number.
Nothing is downloaded, and no published code is contained: the files are yours to get, under their licences.

```bash
auepora bench list                                   # what there is, and what each needs
auepora bench show hotpotqa                          # paper, licences, files, numbers, differences
auepora bench run hotpotqa --data hotpot_dev.json --outputs pred.json
auepora bench run hotpotqa --data hotpot_dev.json --system my_app.rag:build --limit 100
auepora bench check hotpotqa                         # the bundled example against its published values
auepora bench check downloads/dev.json               # to which benchmark a file belongs
auepora init hotpot_dev.json pred.json --bench hotpotqa   # the same as a plan
```

`--strict` shows the published numbers alone. `--split` names a part of a benchmark, `--set KEY=VALUE` changes a
setting such as RGB's `noise`. `--outputs` takes [our own JSONL](formats.md), or the benchmark's own file of
predictions. Numbers that need a judge take it from `--plan` or `--judge-model`,
and are left out without one. Files are looked for under `--data`, in `$AUEPORA_BENCH_DATA/NAME` and in the current
folder. With `--system` the plan and the samples are written into the current folder, and the run is stored with the
tag `bench:NAME`. Where the benchmark gives documents the system answers from these if it can take them, by
`generate(query, documents)` or a `run` that takes `documents`; else it retrieves for itself, and the output says so.
The settings and the licence are in the configuration of the run, which its report shows. `--config RUN` calls the
system of a stored run with its values, such as a configuration of a [sweep](sweep.md); with `--system` that one, with
the values of the run.

RGB gives its documents by the proportion of noise; each proportion is a run of its own:

```bash
for noise in 0 0.2 0.4 0.6 0.8 1; do
  auepora bench run rgb --data en.json --system my_app.rag:build --set noise=$noise
done
```

A benchmark of your own is one YAML file with the same keys, and a folder of the same name beside it for its example:
`auepora bench run ./mine.yaml`. A reader that columns cannot express is named by its import path, `reader:
my_module:samples`; a function that changes each record before its columns are read is `prepare` in `read`.
"""


def figures(benchmarks: list[Benchmark]) -> str:
    """How many rows of the survey's table run, in a sentence."""
    rows = {benchmark.heading.row for benchmark in benchmarks}
    equal = {benchmark.heading.row for benchmark in benchmarks if benchmark.heading.mark != "P"}
    return (
        f"{len(benchmarks)} benchmarks cover the {len(rows)} rows of the survey's table and of the datasets that they "
        f"use; {len(equal)} of these rows give the published values on their examples, and of the other "
        f"{len(rows - equal)} nothing was run."
    )


def bench_page() -> str:
    """The whole page."""
    benchmarks = all_benchmarks()
    rows = []
    for benchmark in benchmarks:
        heading = benchmark.heading
        cells = (heading.row, heading.title, ", ".join(heading.targets), heading.mark, ", ".join(heading.needs))
        rows.append([*map(escape_markdown, cells), f"[`{benchmark.name}`](#{benchmark.name})"])
    table = markdown_table(("row", "benchmark", "targets", "values", "needs", "name"), rows)
    marks = "\n".join(f"- **{mark}**: {text}" for mark, text in MARKS.items())
    sections = [_section(benchmark) for benchmark in benchmarks]
    return "\n\n".join([_OPENING.rstrip(), figures(benchmarks), table, marks, *sections]) + "\n"


def _section(benchmark: Benchmark) -> str:
    heading = benchmark.heading
    facts = [
        f"{escape_markdown(heading.title)}: {escape_markdown(heading.cite)}.",
        f"Source: <{heading.source}>. Data: {escape_markdown(heading.obtain)}.",
        f"Licences: {escape_markdown(licence_text(benchmark))}.",
        f"Values {heading.mark}: {MARKS[heading.mark]}.",
    ]
    parts = [_part(split, part) for split, part in benchmark.parts.items()]
    notes = "\n".join(f"- {escape_markdown(text)}" for text in [*differences(benchmark), *heading.notes])
    return "\n\n".join(filter(None, [f"## {benchmark.name}", "\n".join(facts), *parts, notes]))


def _part(split: str, part: Part) -> str:
    files = ", ".join(f"`{name}`" for name in part.files)
    settings = ", ".join(f"`{name}={value}`" for name, value in part.settings.items())
    named = f"`--split {split}`: " if split else ""
    lead = f"{named}{escape_markdown(part.shape)}. Files: {files}." + (f" Settings: {settings}." if settings else "")
    rows = []
    for name, published in part.metrics.items():
        ours = "" if published.ours is None else f"`{spec_text(published.ours)}`"
        rows.append([escape_markdown(name), f"`{source_text(published).replace('|', '/')}`", ours])
    return f"{lead}\n\n{markdown_table(('number', 'metric', 'ours'), rows)}"


def with_figures(text: str) -> str:
    """The README with the present sentence of ``figures``."""
    return re.sub(r"\d+ benchmarks cover the .*? nothing was run\.", figures(all_benchmarks()), text)


if __name__ == "__main__":
    PAGE.write_text(bench_page(), encoding="utf-8")
    readme = PAGE.parent.parent / "README.md"
    readme.write_text(with_figures(readme.read_text(encoding="utf-8")), encoding="utf-8")
