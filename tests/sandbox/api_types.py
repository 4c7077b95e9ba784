"""Reads the published Go types of the Kubernetes API and prints them as the sandbox's table of fields.

Run it to renew the table when a new version of Kubernetes is taken up:

    python -m tests.sandbox.api_types > src/berth/sandbox/kinds/fields.txt

It needs the modules k8s.io/api and k8s.io/apimachinery in the Go module cache. What is taken are the facts of the wire:
names, numbers, types, merge keys; the format is described in `berth.sandbox.kinds.fields`.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

API, MACHINERY = "k8s.io/api@v0.37.2", "k8s.io/apimachinery@v0.37.2"
OLDER_API = "k8s.io/api@v0.36.3"
EXTENSIONS = "k8s.io/apiextensions-apiserver@v0.37.2"
# Import path, folder in the module cache.
PACKAGES = {
    "k8s.io/apimachinery/pkg/apis/meta/v1": f"{MACHINERY}/pkg/apis/meta/v1",
    **{
        f"k8s.io/api/{group}/v1": f"{API}/{group}/v1"
        for group in (
            "core",
            "apps",
            "batch",
            "policy",
            "scheduling",
            "storage",
            "coordination",
            "events",
            "resource",
            "rbac",
            "authentication",
            "authorization",
            "node",
        )
    },
    "k8s.io/api/scheduling/v1beta1": f"{API}/scheduling/v1beta1",
    "k8s.io/api/scheduling/v1alpha3": f"{API}/scheduling/v1alpha3",
    "k8s.io/api/scheduling/v1alpha2": f"{OLDER_API}/scheduling/v1alpha2",
    "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1": f"{EXTENSIONS}/pkg/apis/apiextensions/v1",
}
# Types with a form of their own, by import path and name.
SPECIAL = {
    "Quantity": "q",
    "Time": "t",
    "MicroTime": "u",
    "Duration": "n",
    "IntOrString": "x",
    "RawExtension": "r",
    "FieldsV1": "r",
    "JSON": "r",
    "JSONSchemaProps": "r",
    "UID": "s",
}
BASIC = {"string": "s", "bool": "b", "int32": "i", "int64": "l", "uint32": "i", "float64": "d", "byte": "c"}
OPTIONS = ("DeleteOptions", "CreateOptions", "UpdateOptions", "PatchOptions")

_TYPE = re.compile(r"^type (\w+) (?:= )?(.+)$")
_FIELD = re.compile(r"^\s+(?:(\w+)\s+)?(\S+)\s+`(.+)`")
_IMPORT = re.compile(r'^\s+(?:(\w+) )?"([^"]+)"$')


@dataclass(frozen=True)
class Source:
    """One Go package: its structs as (field lines), its other types as text, its imports."""

    name: str
    structs: dict[str, list[str]]
    others: dict[str, str]
    imports: dict[str, str]


def module_cache() -> Path:
    """Where Go keeps the sources of modules."""
    return Path(os.environ.get("GOMODCACHE") or Path(os.environ.get("GOPATH") or Path.home() / "go", "pkg", "mod"))


def available(cache: Path) -> bool:
    """Whether all sources are there."""
    return all((cache / folder).is_dir() for folder in PACKAGES.values())


def short_name(path: str) -> str:
    """What messages of a package are called: `core`, `scheduling.v1beta1`."""
    *_, group, version = path.split("/")
    return group if version == "v1" else f"{group}.{version}"


def read(path: str, folder: Path) -> Source:
    structs: dict[str, list[str]] = {}
    others: dict[str, str] = {}
    imports: dict[str, str] = {}
    for file in sorted(folder.glob("*.go")):
        if file.name.startswith(("types", "micro_time", "time", "duration")) and "_test" not in file.name:
            _read_file(file, structs, others, imports)
    return Source(short_name(path), structs, others, imports)


def _read_file(file: Path, structs: dict[str, list[str]], others: dict[str, str], imports: dict[str, str]) -> None:
    current: list[str] | None = None
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("}"):
            current = None
        elif current is not None:
            current.append(line)
        elif found := _TYPE.match(line):
            name, text = found.groups()
            if text.startswith("struct"):
                current = structs.setdefault(name, [])
                if text.endswith("}"):
                    current = None
            else:
                others[name] = text
        elif found := _IMPORT.match(line):
            alias, path = found.groups()
            imports[alias or path.rpartition("/")[2]] = path


class Table:
    """The messages that can be reached from the kinds of all packages."""

    def __init__(self, cache: Path) -> None:
        self._sources = {path: read(path, cache / folder) for path, folder in PACKAGES.items()}
        self._lines: dict[str, str] = {}

    def lines(self) -> list[str]:
        for path, source in self._sources.items():
            for name in source.structs:
                if self._is_kind(source, name):
                    self._visit(path, name)
        return [self._lines[name] for name in sorted(self._lines)]

    def _is_kind(self, source: Source, name: str) -> bool:
        if source.name == "meta":
            return name in OPTIONS
        text = "\n".join(source.structs[name])
        return "TypeMeta" in text and "ObjectMeta" in text and not name.endswith("List")

    def _visit(self, path: str, name: str) -> None:
        source = self._sources[path]
        full = f"{source.name}.{name}"
        if full in self._lines:
            return
        self._lines[full] = ""  # a type may contain itself
        fields = [self._field(path, line) for line in source.structs[name]]
        self._lines[full] = " ".join([full, *filter(None, fields)])

    def _field(self, path: str, line: str) -> str:
        found = _FIELD.match(line)
        if found is None or line.lstrip().startswith("//"):
            return ""
        _, go_type, tags = found.groups()
        json_name, _, options = _tag(tags, "json").partition(",")
        number = _tag(tags, "protobuf").split(",")[1] if "protobuf:" in tags else "0"
        if json_name == "-" or go_type.endswith("TypeMeta"):
            return ""
        pointer = "*" if go_type.startswith("*") else ""
        kind = self._type(path, go_type.removeprefix("*"))
        if not json_name:
            return f"~={number}:{kind}"
        # Go's encoder never takes a struct for empty, so `omitempty` leaves out nothing there.
        is_struct = not pointer and (kind in "tu" or "." in kind) and not kind.startswith(("[]", "{}"))
        omitted = "omitzero" in options or ("omitempty" in options and not is_struct)
        always = "" if omitted else "!"
        merge = ""
        if "patchStrategy:" in tags:
            strategies = _tag(tags, "patchStrategy").split(",")
            merge = (
                f"@{_tag(tags, 'patchMergeKey')}" if "merge" in strategies else "@!" if "replace" in strategies else ""
            )
        return f"{json_name}={number}:{pointer}{always}{kind}{merge}"

    def _type(self, path: str, text: str) -> str:
        if text == "[]byte":
            return "y"
        if text.startswith("[]"):
            return "[]" + self._type(path, text[2:].removeprefix("*"))
        if text.startswith("map["):
            return "{}" + self._type(path, text.partition("]")[2])
        alias, _, name = text.rpartition(".")
        if name in BASIC or name in SPECIAL:
            return BASIC.get(name) or SPECIAL[name]
        return self._named(self._sources[path].imports[alias] if alias else path, name)

    def _named(self, path: str, name: str) -> str:
        source = self._sources.get(path)
        if source is None:
            return "s"  # the few named types of other packages are words
        if name in source.structs:
            self._visit(path, name)
            return f"{source.name}.{name}"
        return self._type(path, source.others[name])


def _tag(tags: str, name: str) -> str:
    found = re.search(rf'{name}:"([^"]*)"', tags)
    return found.group(1) if found else ""


def main() -> None:
    cache = module_cache()
    if not available(cache):
        sys.exit(f"the sources of {', '.join(sorted(set(PACKAGES.values())))} are not all in {cache}")
    sys.stdout.write("\n".join(Table(cache).lines()) + "\n")


if __name__ == "__main__":
    main()
