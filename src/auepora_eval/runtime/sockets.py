"""Sockets that listen."""

import socket
import sys


def reuse_address(listening: socket.socket) -> None:
    """Let a server start while connections of the last one linger; a port in use is still an error."""
    if sys.platform == "win32":  # where SO_REUSEADDR would let two servers share a port
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
    else:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
