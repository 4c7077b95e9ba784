"""Loads the fixtures that every folder of tests may use."""

from __future__ import annotations

pytest_plugins = ["tests.support.fixtures"]
