"""Pins the modules of one Kubernetes version: writes go-MINOR.mod and go-MINOR.sum next to this file.

``k8s.io/kubernetes`` lists its staging modules at v0.0.0 and redirects them to folders of its own tree, which a
module that depends on it cannot follow. Each has a published twin whose version is that of Kubernetes with the major 1
replaced by 0; this script reads the list and writes one ``replace`` per module. Run by hand when a version is added or
moved:

    python3 pin.py 1.37.2 3.7.3

It needs Go and its module proxy. ``build.py`` only reads what this script wrote.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
STAGED = re.compile(r"^\s*(k8s\.io/\S+) v0\.0\.0$", re.MULTILINE)


def staging_modules(kubernetes: str) -> list[str]:
    """The modules that Kubernetes' own go.mod lists at v0.0.0, sorted."""
    done = subprocess.run(
        ["go", "mod", "download", "-json", f"k8s.io/kubernetes@v{kubernetes}"],
        cwd=HERE,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    go_mod = Path(json.loads(done.stdout)["GoMod"]).read_text(encoding="utf-8")
    return sorted(set(STAGED.findall(go_mod)))


def module_file(kubernetes: str, etcd: str) -> str:
    """The text of a go.mod that builds Kubernetes and etcd in these versions."""
    staged = kubernetes.replace("1.", "0.", 1)
    replaces = "\n".join(f"\t{name} => {name} v{staged}" for name in staging_modules(kubernetes))
    requires = f"\tgo.etcd.io/etcd/server/v3 v{etcd}\n\tk8s.io/kubernetes v{kubernetes}"
    return f"module controlplane\n\ngo 1.26.0\n\nrequire (\n{requires}\n)\n\nreplace (\n{replaces}\n)\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("kubernetes", help="version of Kubernetes without the v, such as 1.37.2")
    parser.add_argument("etcd", help="version of etcd without the v, such as 3.7.3")
    args = parser.parse_args()
    minor = args.kubernetes.rpartition(".")[0]
    target = HERE / f"go-{minor}.mod"
    target.write_text(module_file(args.kubernetes, args.etcd), encoding="utf-8")
    subprocess.run(["go", "mod", "tidy", f"-modfile={target.name}"], cwd=HERE, check=True)


if __name__ == "__main__":
    main()
