"""Which plugins there are."""

from __future__ import annotations

import pytest
from tests.framework.fakes import Builder, Sort

from berth.framework.registry import Registry


def test_two_registries_are_joined() -> None:
    mine, theirs = Builder(Sort("Mine")), Builder(Sort("Theirs"))
    joined = Registry({"Mine": mine}).merged({"Theirs": theirs})
    assert dict(joined) == {"Mine": mine, "Theirs": theirs}
    assert len(joined) == 2


def test_a_name_cannot_be_taken_twice() -> None:
    registry = Registry({"DefaultBinder": Builder(Sort())})
    with pytest.raises(ValueError, match=r"^a plugin named DefaultBinder already exists$"):
        registry.merged({"DefaultBinder": Builder(Sort())})
