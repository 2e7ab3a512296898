"""Which peers are installed: a benchmark runs with those that are, and says which it left out."""

from importlib.util import find_spec


def is_installed(module: str) -> bool:
    """Whether a module can be imported; a version of a package that lacks it counts as absent."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def print_missing_peers(*modules: str) -> None:
    """Print one line with the modules that are not installed, and how to install them."""
    absent = [name for name in modules if not is_installed(name)]
    if absent:
        print(f"Not installed and left out: {', '.join(absent)} (pip install -r benchmarks/requirements.txt)")
