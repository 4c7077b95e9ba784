"""Loads the fixtures that every folder of tests may use, and settles how properties are tried.

CI tries the same examples each time, so that what it finds can be found again; elsewhere they differ from run to run.
"""

from __future__ import annotations

import os

from hypothesis import settings

pytest_plugins = ["tests.support.fixtures"]

settings.register_profile("everywhere", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "everywhere")
