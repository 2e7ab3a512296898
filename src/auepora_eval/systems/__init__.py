"""Systems that are not Python objects in this process: import paths, HTTP endpoints, commands."""

__all__ = ["CommandSystem", "HttpSystem", "load_python"]

from .command import CommandSystem
from .http import HttpSystem
from .python import load_python
