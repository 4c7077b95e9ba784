"""Counters, gauges and histograms that cost next to nothing to write to, and the registry that shows them.

A `Family` is a mapping from label values to its instrument, which comes into being when it is first asked for, so the
hot path is one dictionary look-up and one addition. Everything else (names, labels, cumulative buckets) is worked out
when somebody scrapes. All writing happens on the event loop's thread; a scrape may read from another thread and may
then see a histogram whose sum is one observation behind its buckets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from prometheus_client.metrics_core import Metric

UNEXPECTED = "unexpected"
"""Takes the place of a label value that an allow-list does not name."""


class Stability(Enum):
    """What the beginning of a HELP text promises."""

    STABLE = "STABLE"
    BETA = "BETA"
    ALPHA = "ALPHA"


class Instrument(ABC):
    """One thing that is measured."""

    __slots__ = ()
    kind: ClassVar[str]
    """What Prometheus calls it."""

    @abstractmethod
    def reset(self) -> None:
        """Start over, where that makes sense."""

    @abstractmethod
    def add_to(self, metric: Metric, name: str, labels: dict[str, str], *, openmetrics: bool) -> None:
        """Show what was measured as samples of *metric*, whose whole name is *name*.

        Args:
            metric: where to.
            name: of the family.
            labels: values by name.
            openmetrics: whether bounds are written with a point, as that format asks, or as short as can be.
        """


class Counter(Instrument):
    """A number that only grows."""

    __slots__ = ("value",)
    kind = "counter"

    def __init__(self) -> None:
        self.value: float = 0

    def inc(self, by: float = 1) -> None:
        """Add *by*, which is not negative."""
        self.value += by

    def reset(self) -> None:
        """Start over at zero."""
        self.value = 0

    def add_to(self, metric: Metric, name: str, labels: dict[str, str], *, openmetrics: bool) -> None:
        """One sample."""
        _ = openmetrics
        metric.add_sample(name, labels, self.value)


class Gauge(Instrument):
    """A number that goes up and down."""

    __slots__ = ("value",)
    kind = "gauge"

    def __init__(self) -> None:
        self.value: float = 0

    def inc(self, by: float = 1) -> None:
        """Add *by*, which may be negative."""
        self.value += by

    def dec(self) -> None:
        """Take one away."""
        self.value -= 1

    def set(self, value: float) -> None:
        """Replace the number."""
        self.value = value

    def reset(self) -> None:
        """Nothing: a gauge tells the present, and forgetting it would make all later changes wrong."""

    def add_to(self, metric: Metric, name: str, labels: dict[str, str], *, openmetrics: bool) -> None:
        """One sample."""
        _ = openmetrics
        metric.add_sample(name, labels, self.value)


class Histogram(Instrument):
    """Counts observations by size; `counts` has one place per bound, and a last one for what is above them all."""

    __slots__ = ("bounds", "counts", "sum")
    kind = "histogram"

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count *value*; a value that equals a bound lies below it."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def reset(self) -> None:
        """Forget all observations."""
        self.counts[:] = [0] * len(self.counts)
        self.sum = 0.0

    def add_to(self, metric: Metric, name: str, labels: dict[str, str], *, openmetrics: bool) -> None:
        """A sample per bound, for all observations up to it, and their sum and number."""
        counts, total = self.counts[:], self.sum
        seen = 0
        for text, count in zip(_bound_texts(self.bounds, openmetrics), counts, strict=True):
            seen += count
            metric.add_sample(f"{name}_bucket", {**labels, "le": text}, seen)
        metric.add_sample(f"{name}_sum", labels, total)
        metric.add_sample(f"{name}_count", labels, seen)


@lru_cache(maxsize=64)
def _bound_texts(bounds: tuple[float, ...], openmetrics: bool) -> tuple[str, ...]:
    """The values of ``le``, each the shortest text that reads back as the same number."""
    return (*(repr(float(bound)).removesuffix("" if openmetrics else ".0") for bound in bounds), "+Inf")


AnInstrument = TypeVar("AnInstrument", bound=Instrument)
Labels: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Description:
    """What a family says of itself: its whole name, its help text and the names of its labels."""

    name: str
    help: str
    labels: Labels = ()


class Family(dict[Labels, AnInstrument], Generic[AnInstrument]):
    """The instruments of one name, by label values in the order of the label names.

    `family[values]` makes what is not there yet. Several keys may lead to one instrument, where an allow-list is set.
    """

    def __init__(
        self, about: Description, make: Callable[[], AnInstrument], allowed: tuple[frozenset[str] | None, ...]
    ) -> None:
        super().__init__()
        self.about = about
        self.shown: dict[Labels, AnInstrument] = {}
        """What a scrape sees."""
        self._make = make
        self._allowed = allowed if any(values is not None for values in allowed) else None
        if not about.labels:
            _ = self[()]  # a family without labels shows itself from the start

    def __missing__(self, values: Labels) -> AnInstrument:
        if len(values) != len(self.about.labels):
            raise KeyError(f"{self.about.name} has labels {self.about.labels}, not values {values}")
        shown = values
        if self._allowed is not None:
            pairs = zip(values, self._allowed, strict=True)
            shown = tuple(value if some is None or value in some else UNEXPECTED for value, some in pairs)
        instrument = self.shown.get(shown)
        if instrument is None:
            instrument = self.shown[shown] = self._make()
        self[values] = instrument
        return instrument

    def metric(self, *, openmetrics: bool) -> Metric:
        """What there is to show, with at least one instrument; see `Instrument.add_to`."""
        about = self.about
        children = list(self.shown.items())  # in one step, since the loop's thread may add to it meanwhile
        metric = _empty_metric(about, children[0][1].kind)
        for values, child in children:
            labels = dict(zip(about.labels, values, strict=True))
            child.add_to(metric, about.name, labels, openmetrics=openmetrics)
        return metric


def _empty_metric(about: Description, kind: str) -> Metric:
    """A counter's type line bears its name without the suffix; one that has none cannot be typed in this library."""
    if kind == "counter" and not about.name.endswith("_total"):
        return Metric(about.name, about.help, "unknown")
    return Metric(about.name.removesuffix("_total"), about.help, kind)


class Registry:
    """The families that one endpoint shows; a collector in the sense of `prometheus_client`."""

    def __init__(
        self,
        *,
        disabled: frozenset[str] = frozenset(),
        allowed_labels: Mapping[tuple[str, str], frozenset[str]] | None = None,
        show_hidden: bool = False,
    ) -> None:
        """Make an empty registry.

        Args:
            disabled: names of families that are written to but not shown.
            allowed_labels: (family, label) -> the values to keep; others show as `UNEXPECTED`.
            show_hidden: whether families that are registered as hidden are shown.
        """
        self._disabled = disabled
        self._allowed_labels = allowed_labels or {}
        self._show_hidden = show_hidden
        self._families: dict[str, Family[Any]] = {}
        self._refreshers: list[Callable[[], None]] = []
        self.registered = dict.fromkeys(Stability, 0)
        """How many families there are of each stability, hidden and disabled ones left out."""
        self.hidden_count = 0
        self.disabled_count = 0

    def counter(
        self, name: str, text: str, labels: Labels = (), stability: Stability = Stability.ALPHA, *, hidden: bool = False
    ) -> Family[Counter]:
        """A new family of counters."""
        about = Description(name, f"[{stability.value}] {text}", labels)
        return self._add(Family(about, Counter, self._allowed(about)), stability, hidden=hidden)

    def gauge(
        self, name: str, text: str, labels: Labels = (), stability: Stability = Stability.ALPHA, *, hidden: bool = False
    ) -> Family[Gauge]:
        """A new family of gauges."""
        about = Description(name, f"[{stability.value}] {text}", labels)
        return self._add(Family(about, Gauge, self._allowed(about)), stability, hidden=hidden)

    def histogram(
        self,
        name: str,
        text: str,
        bounds: tuple[float, ...],
        labels: Labels = (),
        stability: Stability = Stability.ALPHA,
        *,
        hidden: bool = False,
    ) -> Family[Histogram]:
        """A new family of histograms; *bounds* are the upper bounds in rising order, infinity left out."""
        about = Description(name, f"[{stability.value}] {text}", labels)
        return self._add(Family(about, lambda: Histogram(bounds), self._allowed(about)), stability, hidden=hidden)

    def on_scrape(self, refresh: Callable[[], None]) -> None:
        """Call *refresh* on the loop's thread before each scrape, to set gauges that nobody keeps up to date."""
        self._refreshers.append(refresh)

    def refresh(self) -> None:
        """Bring all gauges up to date; called on the loop's thread, before `collect`."""
        for refresh in self._refreshers:
            refresh()

    def reset(self) -> None:
        """Set counters and histograms back to zero."""
        for family in self._families.values():
            for instrument in list(family.shown.values()):
                instrument.reset()

    def collect(self, *, openmetrics: bool = False) -> Iterator[Metric]:
        """The families that have something to show, by name; see `Instrument.add_to`."""
        for _, family in sorted(self._families.items()):
            if family.shown:
                yield family.metric(openmetrics=openmetrics)

    def _allowed(self, about: Description) -> tuple[frozenset[str] | None, ...]:
        return tuple(self._allowed_labels.get((about.name, label)) for label in about.labels)

    def _add(self, family: Family[AnInstrument], stability: Stability, *, hidden: bool) -> Family[AnInstrument]:
        name = family.about.name
        if name in self._families:
            raise ValueError(f"metric {name} is registered already")
        if hidden and not self._show_hidden:
            self.hidden_count += 1
        elif name in self._disabled:
            self.disabled_count += 1
        else:
            self.registered[stability] += 1
            self._families[name] = family
        return family
