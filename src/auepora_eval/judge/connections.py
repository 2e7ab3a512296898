"""Connections to a judge's server, kept so that finding a free one takes no time, however many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.request import getproxies, proxy_bypass

if TYPE_CHECKING:
    from httpx2 import AsyncClient

__all__ = ["own_client", "without_proxy"]


def without_proxy(host: str) -> bool:
    """Whether the environment lets one ask a host directly."""
    return not getproxies() or bool(proxy_bypass(host))


def own_client(timeout: float | None) -> AsyncClient:
    """A client of HTTP whose every connection is a pool of its own.

    One pool for all looks through all its connections whenever a request begins or ends: with 64 under way that is a
    third of what a request costs here. No proxy is used.
    """
    import httpx2

    alone = httpx2.Limits(max_connections=1, max_keepalive_connections=1)
    context = httpx2.create_ssl_context()

    class Apart(httpx2.AsyncBaseTransport):
        def __init__(self) -> None:
            self.all: list[httpx2.AsyncHTTPTransport] = []
            self.idle: list[httpx2.AsyncHTTPTransport] = []

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if not self.idle:
                self.idle.append(httpx2.AsyncHTTPTransport(verify=context, limits=alone))
                self.all += self.idle
            transport = self.idle.pop()  # the one used last, so that those no longer needed end by themselves
            try:
                response = await transport.handle_async_request(request)
                try:
                    await response.aread()
                finally:
                    await response.aclose()
            finally:
                self.idle.append(transport)
            return response

        async def aclose(self) -> None:
            for transport in self.all:
                await transport.aclose()

    return httpx2.AsyncClient(transport=Apart(), timeout=timeout, follow_redirects=True)
