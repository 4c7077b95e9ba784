"""Counting what was equal, and telling it: a line for each version, group and part, then the first differences.

Filled by `tests.conformance.runner`, case by case; a case is one pod of a scenario, or one change of a hint document.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

ALL_GROUPS: Final = "(all)"


class Row(msgspec.Struct, frozen=True):
    """How many cases of one part are equal."""

    version: str
    group: str
    part: str
    equal: int
    total: int

    @property
    def differs(self) -> bool:
        """Whether any case is not equal."""
        return self.equal != self.total


class PluginRow(msgspec.Struct, frozen=True):
    """How many cases of one part are equal as far as one plugin goes."""

    part: str
    plugin: str
    version: str
    group: str
    equal: int
    total: int


class Difference(msgspec.Struct, frozen=True):
    """A case that is not equal: ``subject`` says which pod or change of the vector ``name``."""

    name: str
    version: str
    subject: str
    part: str
    words: str


class Case(msgspec.Struct, frozen=True):
    """What is compared: one pod of a scenario, or one change of a hint document."""

    version: str
    group: str
    name: str
    subject: str


class Report:
    """The counts of one run.

    Args:
        show: how many differences to keep in words for each version, group and part.
    """

    def __init__(self, show: int = 3) -> None:
        self._show = show
        self._equal: Counter[tuple[str, str, str]] = Counter()
        self._total: Counter[tuple[str, str, str]] = Counter()
        self._plugin_equal: Counter[tuple[str, str, str, str]] = Counter()
        self._plugin_total: Counter[tuple[str, str, str, str]] = Counter()
        self._differences: dict[tuple[str, str, str], list[Difference]] = defaultdict(list)

    def count(self, case: Case, differences: Mapping[str, str], parts: Iterable[str]) -> None:
        """Count one case: *differences* has words for each of *parts* that is not equal."""
        for part in parts:
            key = (case.version, case.group, part)
            self._total[key] += 1
            if part not in differences:
                self._equal[key] += 1
            elif len(self._differences[key]) < self._show:
                found = Difference(case.name, case.version, case.subject, part, differences[part])
                self._differences[key].append(found)

    def count_plugin(self, part: str, plugin: str, case: Case, equal: int, total: int) -> None:
        """Count what one plugin contributes to one case."""
        key = (part, plugin, case.version, case.group)
        self._plugin_equal[key] += equal
        self._plugin_total[key] += total

    @property
    def differs(self) -> bool:
        """Whether any case is not equal in any part."""
        return self._equal != self._total

    def rows(self) -> list[Row]:
        """A row for each version, group and part, in the order of the vectors."""
        return [Row(*key, self._equal[key], total) for key, total in self._total.items()]

    def sums(self) -> list[Row]:
        """A row for each version and part, over all groups."""
        equal: Counter[tuple[str, str]] = Counter()
        total: Counter[tuple[str, str]] = Counter()
        for row in self.rows():
            equal[row.version, row.part] += row.equal
            total[row.version, row.part] += row.total
        return [Row(version, ALL_GROUPS, part, equal[version, part], n) for (version, part), n in total.items()]

    def plugin_rows(self) -> list[PluginRow]:
        """A row for each part, plugin, version and group."""
        keys = sorted(self._plugin_total)
        return [PluginRow(*key, self._plugin_equal[key], self._plugin_total[key]) for key in keys]

    def differences(self) -> list[Difference]:
        """The first differences of each row."""
        return [difference for found in self._differences.values() for difference in found]

    def json(self, *, by_plugin: bool) -> str:
        """All of it as a JSON object."""
        content: dict[str, object] = {"rows": self.rows(), "sums": self.sums(), "differences": self.differences()}
        if by_plugin:
            content["plugins"] = self.plugin_rows()
        return msgspec.json.format(msgspec.json.encode(content), indent=2).decode()

    def lines(self, *, by_plugin: bool) -> Iterator[str]:
        """All of it as text."""
        rows = [*self.rows(), *self.sums()]
        yield from _table([(row.version, row.group, row.part, _figure(row)) for row in rows])
        if by_plugin:
            for line in self.plugin_rows():
                yield f"{line.part} of {line.plugin} {line.version} {line.group} {_figure(line)}"
        differences = self.differences()
        if differences:
            yield f"\nThe first differences, at most {self._show} of each line above:"
        for found in differences:
            yield f"{found.name} ({found.version}) {found.subject}, {found.part}: {found.words}"


def _figure(row: Row | PluginRow) -> str:
    return f"{row.equal}/{row.total}"


def _table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
