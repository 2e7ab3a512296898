"""The reference of the Python names, written from signatures and docstrings:  python -m tools.api_reference."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import itertools
import re
import textwrap
from collections.abc import Callable
from typing import Any

import auepora_eval
from auepora_eval.core.targets import TARGETS
from auepora_eval.core.types import TargetCategory
from tools.source_tree import REPO, ROOT

PAGE = REPO / "docs" / "api.md"

TOPICS = {
    "Data": (
        "Document", "RetrievedDocument", "Response", "EvaluationSample", "SystemOutputs", "EvaluationDataset",
        "InMemoryDataset", "LazyDataset", "load_dataset", "TargetCategory", "with_gold", "pool_outputs",
    ),
    "Evaluate": (
        "evaluate", "evaluate_stream", "evaluate_rankings", "evaluate_trec", "evaluate_files", "EvaluationPlan",
        "Conventions", "MetricResult", "Results", "RAGEvaluationClient", "ClientReport",
    ),
    "Metrics of your own": (
        "metric", "register", "Metric", "SampleMetric", "BatchMetric", "Score", "Scores",
    ),
    "Judges": (
        "LLMCritic", "StructuredCritic", "OpenAICritic", "DecisionCritic", "RecordedCritic", "Panel", "JudgePolicy",
        "JudgeSession", "JudgeMetric", "JudgedMetric", "judge_relevance", "prefer", "calibrate",
    ),
    "Systems and runs": (
        "RAGSystem", "AueporaEvaluator", "from_langchain", "from_llamaindex", "from_haystack", "run_plan",
        "run_system", "rescore", "diagnose", "diagnose_plan",
    ),
    "Stored runs": ("open_store", "RunStore", "compare", "check_gates", "plan_size", "explain"),
    "Perturbations": ("perturb_queries", "PerturbedRetriever", "run_perturbed", "noise_curve"),
    "Reports": ("write_report", "plot_results", "plot_comparison", "plot_runs"),
    "Errors and version": ("AueporaError", "AueporaWarning", "__version__"),
}  # fmt: skip

_OPENING = """# Python names

Everything that `from auepora_eval import ...` gives, with parameters and types.
Generated from signatures and docstrings by `make docs`; [Python](python.md) says which function to use.
In examples, `samples`, `outputs` and `system` are those of a test of two questions, one of which is a hit.
Other modules are not part of the interface: see [Architecture](architecture.md).
"""
_MODULE_PREFIX = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Za-z_])")
_FORMULA = re.compile(r"\.\. math:: (.+)")
_WIDTH = 100
_STARS = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}


@dataclasses.dataclass(frozen=True, slots=True)
class ParameterText:
    """A parameter as the page shows it."""

    name: str
    """With the stars of further arguments."""
    annotation: str
    default: str
    """Empty where an argument is required, or where there may be any number of them."""
    is_required: bool
    is_keyword_only: bool

    @property
    def in_call(self) -> str:
        """The parameter in the line that shows a call."""
        return f"{self.name}={self.default}" if self.default else self.name


def api_page() -> str:
    """The reference of all exported names, by topic."""
    listed = [name for names in TOPICS.values() for name in names]
    if sorted(listed) != sorted(auepora_eval.__all__):
        differing = sorted(set(listed) ^ set(auepora_eval.__all__))
        raise ValueError(f"TOPICS in tools/api_reference.py and the exported names differ: {', '.join(differing)}")
    parts = [_OPENING]
    for topic, names in TOPICS.items():
        parts.append(f"## {topic}\n")
        parts += [_name_section(name) for name in names]
    return "\n".join(parts)


def _name_section(name: str) -> str:
    value = inspect.unwrap(getattr(auepora_eval, name))
    heading = f"### `{name}`\n\n"
    if isinstance(value, str):
        return f"{heading}The version of this package, a string.\n"
    if value is TargetCategory:
        members = [f"* `{target.name}`: {entry.question}\n" for target, entry in TARGETS.items()]
        return f"{heading}{_prose(value)}\n{''.join(members)}"
    if inspect.isclass(value):
        return heading + _class_text(value)
    parameters = parameter_texts(value)
    returned = _annotation_text(inspect.signature(value).return_annotation)
    meanings = _argument_texts(value)
    return heading + _call_block(name, parameters, returned) + _prose(value) + _parameter_table(parameters, meanings)


def _argument_texts(value: object) -> dict[str, str]:
    """What the section ``Args`` of a docstring says about each parameter."""
    document = inspect.cleandoc(getattr(value, "__doc__", None) or "")
    section = next((part for part in document.split("\n\n") if part.startswith("Args:")), "")
    pairs = re.findall(r"^    (\w+): ((?:.*)(?:\n        .*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in pairs}


def _class_text(cls: type) -> str:
    parameters = [] if issubclass(cls, BaseException) else parameter_texts(cls)
    # Nothing is said by a class that takes what its base takes.
    takes_anything = all(parameter.name.startswith("*") for parameter in parameters)
    parts = []
    if not takes_anything:
        parts.append(_call_block(cls.__name__, parameters, ""))
    parts.append(_prose(cls))
    bases = [base.__name__ for base in cls.__mro__[1:] if base.__name__ in auepora_eval.__all__]
    if bases:
        links = ", ".join(f"[`{base}`](#{base.lower()})" for base in bases)
        parts.append(f"\nInherits from {links}.\n")
    if not takes_anything:
        parts.append(_parameter_table(parameters, _field_texts(cls)))
    parts.append(_member_list(cls))
    return "".join(parts)


def parameter_texts(value: Callable[..., Any]) -> list[ParameterText]:
    """The parameters of a function, or of the constructor of a class."""
    factories = _factory_defaults(value)
    texts = []
    for parameter in inspect.signature(value).parameters.values():
        stars = _STARS.get(parameter.kind.name, "")
        default = factories.get(parameter.name, "")
        has_default = parameter.default is not inspect.Parameter.empty
        if has_default and not default:
            default = _default_text(parameter.default)
        text = ParameterText(
            name=stars + parameter.name,
            annotation=_annotation_text(parameter.annotation),
            default=default,
            is_required=not has_default and not stars,
            is_keyword_only=parameter.kind is inspect.Parameter.KEYWORD_ONLY,
        )
        texts.append(text)
    return texts


def _factory_defaults(value: object) -> dict[str, str]:
    """The defaults of fields that are made anew for each object."""
    if not dataclasses.is_dataclass(value):
        return {}
    made = [field for field in dataclasses.fields(value) if field.default_factory is not dataclasses.MISSING]
    return {field.name: repr(field.default_factory()) for field in made if callable(field.default_factory)}


def _default_text(default: object) -> str:
    if inspect.isfunction(default) or inspect.isclass(default):
        return default.__name__
    if isinstance(default, enum.Enum):
        return f"{type(default).__name__}.{default.name}"
    if dataclasses.is_dataclass(default):
        return f"{type(default).__name__}()"
    return repr(default)


def _annotation_text(annotation: object) -> str:
    """A type as it is written in the source, without the names of modules."""
    if annotation is inspect.Signature.empty:
        return ""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _MODULE_PREFIX.sub("", text.replace("'", '"'))


def _call_text(name: str, parameters: list[ParameterText], returned: str) -> str:
    """A call with all parameters and their defaults."""
    texts = []
    keyword_only = False
    for parameter in parameters:
        if parameter.is_keyword_only and not keyword_only:
            keyword_only = True
            texts.append("*")
        texts.append(parameter.in_call)
    ending = f") -> {returned}" if returned else ")"
    line = f"{name}({', '.join(texts)}{ending}"
    if len(line) <= _WIDTH:
        return line
    inner = textwrap.fill(", ".join(texts), _WIDTH, initial_indent="    ", subsequent_indent="    ")
    return f"{name}(\n{inner}\n{ending}"


def _call_block(name: str, parameters: list[ParameterText], returned: str) -> str:
    return f"```text\n{_call_text(name, parameters, returned)}\n```\n\n"


def _parameter_table(parameters: list[ParameterText], meanings: dict[str, str]) -> str:
    """A row for each parameter; a column for what fields mean where the source says it of any."""
    if not parameters:
        return ""
    headings = ["parameter", "type", "default"]
    has_meanings = any(parameter.name in meanings for parameter in parameters)
    if has_meanings:
        headings.append("meaning")
    rows = [headings, ["---"] * len(headings)]
    for parameter in parameters:
        default = _cell_code(parameter.default)
        if parameter.is_required:
            default = "required"
        row = [f"`{parameter.name}`", _cell_code(parameter.annotation), default]
        if has_meanings:
            row.append(_escape(_inline(meanings.get(parameter.name, ""))))
        rows.append(row)
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n" + "\n".join(lines) + "\n"


def _field_texts(cls: type) -> dict[str, str]:
    """What the source says below the fields of a class and of its bases."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not base.__module__.startswith(ROOT):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(tree, ast.ClassDef)
        for statement, following in itertools.pairwise(tree.body):
            text = _string_of(following)
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and text:
                texts[statement.target.id] = " ".join(text.split())
    return texts


def _string_of(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return str(statement.value.value)
    return ""


def _member_list(cls: type) -> str:
    """The public methods and properties that a class defines, with the first paragraph of their docstrings."""
    lines = []
    for name, member in vars(cls).items():
        text = "" if name.startswith("_") else _member_text(name, member)
        if text:
            lines.append(f"* {text}\n")
    return "\n" + "".join(lines) if lines else ""


def _member_text(name: str, member: object) -> str:
    """A method with its parameters, or a property; empty for anything else."""
    if isinstance(member, property):
        return _with_summary(name, member)
    is_static = isinstance(member, staticmethod)
    function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
    if not inspect.isfunction(function):
        return ""
    parameters = parameter_texts(function)
    if not is_static:
        parameters = parameters[1:]
    call = " ".join(_call_text(name, parameters, "").split())
    return _with_summary(call.replace("( ", "(").replace(" )", ")"), function)


def _with_summary(shown: str, member: object) -> str:
    summary = _prose(member).partition("\n\n")[0].strip()
    return f"`{shown}`: {summary}" if summary else ""


def _prose(value: object) -> str:
    """The docstring as Markdown, without its section ``Args``, which the table of parameters has."""
    document = inspect.cleandoc(getattr(value, "__doc__", None) or "")
    paragraphs = []
    for paragraph in document.split("\n\n"):
        formula = _FORMULA.match(paragraph)
        if paragraph.startswith("Args:"):
            continue
        if formula is not None:
            paragraphs.append(f"$$\n{formula[1]}\n$$")
        elif paragraph.startswith("Example:"):
            paragraphs.append(f"```text\n{textwrap.dedent(paragraph.partition(chr(10))[2])}\n```")
        else:
            paragraphs.append(_inline(" ".join(paragraph.split())))
    return "\n\n".join(paragraphs) + "\n"


def _inline(text: str) -> str:
    return text.replace("``", "`")


def _escape(text: str) -> str:
    return text.replace("|", "\\|")


def _cell_code(text: str) -> str:
    return f"`{_escape(text)}`" if text else ""


if __name__ == "__main__":
    PAGE.write_text(api_page(), encoding="utf-8")
