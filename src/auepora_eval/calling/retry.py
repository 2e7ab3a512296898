"""Retry rules for system calls: those of ``core.retry``, which judges use as well."""

from ..core.retry import MAX_RETRY_AFTER, Backoff, is_connection_error, is_transient, parse_retry_after, retry_after

__all__ = ["MAX_RETRY_AFTER", "Backoff", "is_connection_error", "is_transient", "parse_retry_after", "retry_after"]
