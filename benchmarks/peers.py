"""Which peers are installed: a benchmark runs with those that are, and says which it left out."""

from importlib.util import find_spec


def print_missing_peers(*packages: str) -> None:
    """Print one line with the packages that are not installed, and how to install them."""
    absent = [name for name in packages if find_spec(name) is None]
    if absent:
        print(f"Not installed and left out: {', '.join(absent)} (pip install -r benchmarks/requirements.txt)")
