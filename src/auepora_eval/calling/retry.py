"""When a call is repeated; the rules are those of ``core.retrying``, which judges go by as well."""

from ..core.retrying import LONGEST_WAIT, Waits, is_connection_error, may_pass, parse_retry_after, retry_after

__all__ = ["LONGEST_WAIT", "Waits", "is_connection_error", "may_pass", "parse_retry_after", "retry_after"]
