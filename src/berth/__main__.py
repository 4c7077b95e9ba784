"""``python -m berth``: the same as the command ``berth``."""

import sys

from berth.cli.main import main

sys.exit(main())
