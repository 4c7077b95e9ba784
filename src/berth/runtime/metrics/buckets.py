"""Upper bounds of the histograms; computed as the reference does, so that the texts of the bounds are the same.

Source: k8s pkg/scheduler/metrics/metrics.go; client-go tools/metrics as registered by component-base.
"""

from typing import Final


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """*count* bounds from *start* on, each *factor* times the one before, by repeated multiplication."""
    bounds = [start]
    for _ in range(count - 1):
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)


EXTENSION_POINT: Final = exponential(0.0001, 2, 12)
ATTEMPT: Final = exponential(0.001, 2, 15)
VICTIMS: Final = exponential(1, 2, 7)
SLI: Final = exponential(0.01, 2, 20)
ATTEMPTS: Final = exponential(1, 2, 5)
PLUGIN: Final = exponential(0.00001, 1.5, 20)
CLIENT: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
DELEGATED: Final = (0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0)
