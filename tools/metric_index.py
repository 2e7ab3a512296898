"""Write the index of the built-in metrics, ``metrics/_index.py``:  python tools/metric_index.py"""

import importlib
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from auepora_eval import metrics
from auepora_eval.core.registry import MetricInfo, metric_infos

INDEX = Path(metrics.__path__[0]) / "_index.py"


def built_in_metrics() -> dict[str, MetricInfo]:
    """Every metric of the package ``metrics`` by name, whether the index contains it or not."""
    for module in pkgutil.iter_modules(metrics.__path__):
        importlib.import_module(f"{metrics.__name__}.{module.name}")
    return {
        name: info for name, info in metric_infos().items() if info.cls.__module__.startswith(f"{metrics.__name__}.")
    }


def metric_aliases() -> dict[str, dict[str, tuple[str, Mapping[str, Any]]]]:
    """By tool and name: the metric, and the options that the name implies."""
    found: dict[str, dict[str, tuple[str, Mapping[str, Any]]]] = {}
    for name, info in built_in_metrics().items():
        for tool, names in info.metadata.aliases.items():
            options: Mapping[str, Any] = names if isinstance(names, Mapping) else {}
            for alias in names:
                known = found.setdefault(tool, {}).setdefault(alias, (name, options.get(alias, {})))
                if known[0] != name:
                    raise ValueError(f"'{alias}' of {tool} is an alias of {known[0]} and of {name}")
    return dict(sorted(found.items()))


def index_text() -> str:
    """The source of the index."""
    title = "Built-in metrics: the module of each, and its names in other tools. Written by ``make docs``."
    lines = [f'"""{title}"""', "", "from typing import Any", "", "MODULES = {"]
    lines += [f'    "{name}": "{info.cls.__module__.rpartition(".")[2]}",' for name, info in built_in_metrics().items()]
    lines += ["}", "ALIASES: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {"]
    for tool, names in metric_aliases().items():
        rows = [
            f"        {alias!r}: ({name!r}, {dict(options)!r}),".replace("'", '"')
            for alias, (name, options) in sorted(names.items())
        ]
        lines += [f'    "{tool}": {{', *rows, "    },"]
    return "\n".join([*lines, "}", ""])


if __name__ == "__main__":
    INDEX.write_text(index_text(), encoding="utf-8")
