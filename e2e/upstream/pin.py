"""Pins the modules of the reference's test suite: writes go-MINOR.mod and go-MINOR.sum next to this file.

    python3 pin.py 1.37

It starts from the control plane's pins of the same minor, so that both use the same packages and the second build
finds most of them compiled, and adds what the suite's own tests need. Run by hand after ``../controlplane/pin.py``;
it needs Go and its module proxy. ``build.py`` only reads what this script wrote.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
CONTROL_PLANE = HERE.parent / "controlplane"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("minor", help="of Kubernetes, such as 1.37")
    minor = parser.parse_args().minor
    target = HERE / f"go-{minor}.mod"
    pins = (CONTROL_PLANE / target.name).read_text(encoding="utf-8")
    kubernetes = re.findall(r"^\s*k8s\.io/kubernetes (v\S+)$", pins, re.MULTILINE)[0]
    target.write_text(pins.replace("module controlplane", "module upstream", 1), encoding="utf-8")
    target.with_suffix(".sum").write_bytes((CONTROL_PLANE / target.name).with_suffix(".sum").read_bytes())
    wanted = f"k8s.io/kubernetes/test/e2e@{kubernetes}"
    subprocess.run(["go", "get", f"-modfile={target.name}", "-t", wanted], cwd=HERE, check=True)


if __name__ == "__main__":
    main()
