"""The exceptions at their earlier path (re-exports ``errors``)."""

from ..errors import *  # noqa: F403
from ..errors import __all__ as __all__
