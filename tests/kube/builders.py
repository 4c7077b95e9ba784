"""Builders of objects, events and clocks for the tests of the client."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import msgspec

from berth.kube.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable


class Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Thing(msgspec.Struct):
    """The object of the tests: metadata and one typed field that can be malformed."""

    metadata: Meta
    size: int = 0


def a_thing(
    name: str = "a", *, version: int = 1, uid: str = "", namespace: str = "ns", size: Any = 0
) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
        },
        "size": size,
    }


def a_list(*things: dict[str, Any], version: int = 1, next_page: str = "") -> dict[str, Any]:
    return {
        "kind": "ThingList",
        "metadata": {"resourceVersion": str(version), "continue": next_page},
        "items": [*things],
    }


def a_line(event: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": event, "object": obj}).encode() + b"\n"


def a_bookmark(version: int) -> bytes:
    return a_line("BOOKMARK", {"kind": "Thing", "metadata": {"resourceVersion": str(version)}})


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that happens on another task, across a socket."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  what is waited for is a list that grows, in the code under test
            await asyncio.sleep(0.001)


class Story:
    """A handler that writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def on_add(self, obj: Thing, is_initial: bool) -> None:
        self.told.append(("add", obj.metadata.name, obj.metadata.resource_version, is_initial))

    def on_update(self, old: Thing, new: Thing) -> None:
        self.told.append(("update", new.metadata.name, old.metadata.resource_version, new.metadata.resource_version))

    def on_delete(self, obj: Thing, final_state_unknown: bool) -> None:
        self.told.append(("delete", obj.metadata.name, obj.metadata.resource_version, final_state_unknown))


class SkippedTime:
    """A clock whose sleeps cost nothing and are written down; its chance is always the same."""

    def __init__(self, chance: float = 0.0, *, wall_ns: int = 1_700_000_000_123_456_789) -> None:
        self.now_s = 1000.0
        self.slept_s: list[float] = []
        self._wall_ns = wall_ns
        self._chance = chance
        self.clock = Clock(
            monotonic=lambda: self.now_s,
            wall_ns=lambda: self._wall_ns + int((self.now_s - 1000.0) * 1e9),
            sleep=self._sleep,
            chance=lambda: self._chance,
        )

    async def _sleep(self, delay_s: float) -> None:
        self.slept_s.append(delay_s)
        self.now_s += delay_s
        await asyncio.sleep(0)
