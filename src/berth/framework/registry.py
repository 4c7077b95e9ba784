"""`Registry`: plugin names and how to build each.

Source: k8s pkg/scheduler/framework/runtime/registry.go.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from berth.framework.handle import Handle
from berth.framework.interface import Plugin

Factory = Callable[[Any, Handle], Plugin]
"""(the plugin's decoded arguments or None, its surroundings) to a plugin; raises ValueError for bad arguments."""


class Registry(Mapping[str, Factory]):
    """An immutable mapping that refuses a second plugin of one name."""

    def __init__(self, factories: Mapping[str, Factory]) -> None:
        self._factories = dict(factories)

    def merged(self, others: Mapping[str, Factory]) -> "Registry":
        """This registry and *others* together.

        Raises:
            ValueError: a name is taken.
        """
        for name in others:
            if name in self._factories:
                raise ValueError(f"a plugin named {name} already exists")
        return Registry({**self._factories, **others})

    def __getitem__(self, name: str) -> Factory:
        """The factory of *name*."""
        return self._factories[name]

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter(self._factories)

    def __len__(self) -> int:
        """How many plugins there are."""
        return len(self._factories)
