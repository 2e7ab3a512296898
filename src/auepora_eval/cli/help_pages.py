"""The help of commands with many options: options in groups, and rare ones on a page of their own."""

from __future__ import annotations

import re

import click

MAX_SIMPLE_OPTIONS = 12
"""Up to so many options a command shows all of them."""
MAX_EXAMPLES = 3

_OTHER = "Options"
_GROUPS = {
    "Input": (
        "samples limit resume retry_failed keep_going run_name columns outputs_columns sample_format outputs_format "
        "from_format corpus nuggets qrels run_file parts set_texts grades draw incomplete store label_files labels"
    ),
    "Metrics": (
        "metrics metric targets conventions match slices complete min_relevance depth duplicates primary guardrails "
        "deltas adjust why why_metric correct correct_from measures utility"
    ),
    "Judge": (
        "preview judge_cache_only judge_repeats max_calls max_cost controls plan judge_model judge_url judge_key_env "
        "judge_name"
    ),
    "Early stopping": "until_decided stop_metric delta safe stop_seed continue_judging",
    "Perturb": "perturb perturb_corpus perturb_payloads",
    "Execution": "concurrency executor workers address batch_size lean",
    "Output": "name tags every as_json per_query quiet output raw junit against no_gates runs_dir",
}
"""The headings of options, with the names of the parameters below them; others are below ``Options``."""
_HEADINGS = {name: heading for heading, names in _GROUPS.items() for name in names.split()}

_RARE = frozenset({
    "sample_format", "outputs_format", "outputs_columns", "nuggets", "parts", "grades", "draw", "incomplete",
    "complete", "min_relevance", "depth", "duplicates", "measures", "utility", "mirage", "k", "adjust",
    "strict_chunker_version", "golden", "judge_cache_only", "judge_repeats", "max_calls", "controls",
    "judge_key_env", "stop_metric", "delta", "safe", "stop_seed", "perturb_corpus", "perturb_payloads",
    "concurrency", "keep_going", "retry_failed", "run_name", "executor", "workers", "address", "batch_size", "lean",
    "per_query", "raw", "junit", "no_gates", "runs_dir", "seed", "tags", "other_dataset", "corpus", "tuning",
    "provenance", "history", "looks", "stratify", "picked", "these_samples", "tuned_on", "plain", "blind", "layout",
    "keyboard", "swap_words", "drop_words", "no_punctuation", "keep_numbers", "only_variants", "own",
    "continue_judging", "correct_from",
})  # fmt: skip
"""Parameters that only ``--help-all`` shows, where a command has many options."""
SHOWS_ALL = "auepora.help_all"
"""The key in the context of a command whose whole help is shown."""
_CLAUSE_END = re.compile(r"; |\. |  \[")


def _print_whole_help(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if not value or context.resilient_parsing:
        return
    context.meta[SHOWS_ALL] = True
    click.echo(context.get_help(), color=context.color)
    context.exit()


_HELP_ALL = click.Option(
    ["--help-all"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_whole_help,
    help="Show every option and the whole description.",
)


class Command(click.Command):
    """A command that shows its options in groups if it has many, and rare ones with ``--help-all`` only."""

    @property
    def has_many_options(self) -> bool:
        """Whether the help has two forms."""
        return sum(isinstance(param, click.Option) for param in self.params) > MAX_SIMPLE_OPTIONS

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The parameters, with ``--help-all`` at the end if the help has two forms."""
        params = super().get_params(ctx)
        return [*params, _HELP_ALL] if self.has_many_options else params

    def _is_short(self, ctx: click.Context) -> bool:
        return self.has_many_options and not ctx.meta.get(SHOWS_ALL, False)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the description; the short form has the first paragraph and the first examples."""
        whole = self.help
        if self._is_short(ctx) and whole is not None:
            self.help = _shortened(whole)
        try:
            super().format_help_text(ctx, formatter)
        finally:
            self.help = whole

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options below their headings."""
        if not self.has_many_options:
            super().format_options(ctx, formatter)
            return
        groups: dict[str, list[tuple[str, str]]] = {heading: [] for heading in (*_GROUPS, _OTHER)}
        num_hidden = 0
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None or not isinstance(param, click.Option):
                continue
            if self._is_short(ctx):
                if param.name in _RARE:
                    num_hidden += 1
                    continue
                first_clause = _CLAUSE_END.split(record[1], maxsplit=1)[0]
                record = record[0], f"{first_clause.rstrip('.')}."
            groups[_HEADINGS.get(param.name or "", _OTHER)].append(record)
        for heading, records in groups.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)
        if num_hidden:
            formatter.write_paragraph()
            formatter.write_text(f"{num_hidden} more options: {ctx.command_path} --help-all")


def _shortened(text: str) -> str:
    """The first paragraph of a description, and its first examples."""
    paragraphs = text.split("\n\n")
    kept = paragraphs[:1]
    for paragraph in paragraphs[1:]:
        if paragraph.lstrip().startswith("\b"):
            kept.append("\n".join(paragraph.split("\n")[: MAX_EXAMPLES + 1]))
    return "\n\n".join(kept)
