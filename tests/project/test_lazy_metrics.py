"""A metric is imported when it is named: the index is current, and scoring one metric loads little else."""

import pytest

from tools import metric_index
from tools.source_tree import count_lines, module_name
from tools.structure import loaded_modules

pytestmark = pytest.mark.xdist_group("source_tree")


def test_the_index_is_current() -> None:
    assert metric_index.INDEX.read_text(encoding="utf-8") == metric_index.index_text(), "run `make docs`"


def test_scoring_one_metric_loads_little() -> None:
    loaded = loaded_modules()
    packages = [module_name(path).partition(".")[0] for path in loaded]
    unwanted = {
        "judge",
        "models",
        "plan",
        "gates",
        "store",
        "compare",
        "report",
        "scale",
        "runs",
        "labels",
        "grades",
        "calibration",
        "systems",
    }
    assert unwanted.isdisjoint(packages)
    assert packages.count("metrics") <= 4
    assert sum(map(count_lines, loaded)) <= 18_900
