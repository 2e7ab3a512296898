"""Write the index of the built-in metrics, ``metrics/_index.py``:  python tools/metric_index.py"""

import importlib
import pkgutil
from pathlib import Path

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


def index_text() -> str:
    """The source of the index."""
    rows = [f'    "{name}": "{info.cls.__module__.rpartition(".")[2]}",' for name, info in built_in_metrics().items()]
    title = "Built-in metrics by name: the module that defines each. Written by ``make docs``."
    return "\n".join([f'"""{title}"""', "", "MODULES = {", *rows, "}", ""])


if __name__ == "__main__":
    INDEX.write_text(index_text(), encoding="utf-8")
