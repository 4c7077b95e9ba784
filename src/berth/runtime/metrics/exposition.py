"""Turning registries into the text that Prometheus reads.

Gauges are brought up to date on the event loop's thread; the text, some hundred thousand bytes, is made on another
one, so that a scrape does not hold up decisions.
"""

from __future__ import annotations

import asyncio
import gzip
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from prometheus_client.exposition import choose_encoder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client.metrics_core import Metric

    from berth.runtime.metrics.instruments import Registry

_GZIP_LEVEL = 5


class Collects(Protocol):
    """Anything that has metrics to show."""

    def collect(self) -> Iterable[Metric]:
        """The metrics as they are now; may be called on any thread."""


@dataclass(frozen=True, slots=True)
class Exposition:
    """One answer to a scrape."""

    body: bytes
    content_type: str
    gzipped: bool


class Exposer:
    """Shows a registry, and whatever else collects, as one page."""

    def __init__(self, registry: Registry, *others: Collects) -> None:
        self._registry = registry
        self._others = others

    async def expose(self, accept: str, *, compress: bool) -> Exposition:
        """The page in the format that *accept* (the header) asks for: OpenMetrics, or the plain text format."""
        self._registry.refresh()
        return await asyncio.to_thread(self._render, accept, compress=compress)

    def reset(self) -> None:
        """Set counters and histograms back to zero."""
        self._registry.reset()

    def _render(self, accept: str, *, compress: bool) -> Exposition:
        encode, content_type = choose_encoder(accept)
        body = encode(_Page(self._registry, self._others, content_type.startswith("application/openmetrics-text")))
        return Exposition(gzip.compress(body, _GZIP_LEVEL) if compress else body, content_type, compress)


@dataclass(frozen=True, slots=True)
class _Page:
    registry: Registry
    others: tuple[Collects, ...]
    openmetrics: bool

    def collect(self) -> Iterator[Metric]:
        yield from self.registry.collect(openmetrics=self.openmetrics)
        for other in self.others:
            yield from other.collect()
