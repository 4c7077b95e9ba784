"""YAML or JSON text to plain values, strictly: one document, no key twice.

Scalars resolve as the reference's YAML reader does, so there are no sexagesimal numbers and no timestamps. Called by
``config.load``; what the values mean is decided in ``config.decode``.
"""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from berth.config.faults import ConfigError, Fault, FaultKind, other


def parse_document(text: str) -> Any:
    """The value of the one document in *text*; None if it is empty.

    Raises:
        ConfigError: *text* is neither YAML nor JSON, holds several documents, or gives a key twice (each is told).
    """
    faults: list[Fault] = []
    value = _parse_json(text, faults) if text.lstrip().startswith("{") else _parse_yaml(text, faults)
    if faults:
        raise ConfigError(faults)
    return value


def _parse_json(text: str, faults: list[Fault]) -> Any:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        seen: set[str] = set()
        for key, _ in items:
            if key in seen:
                faults.append(_repeated(key, key))
            seen.add(key)
        return dict(items)

    def constant(name: str) -> Any:
        raise ValueError(f"{name} is not a number")

    try:
        return json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    except ValueError:
        faults.clear()
        return _parse_yaml(text, faults)  # a flow mapping looks like JSON at first sight


def _parse_yaml(text: str, faults: list[Fault]) -> Any:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        return None if node is None else _Builder(loader, faults).build(node, "")
    except yaml.YAMLError as error:
        faults.append(other("", "yaml: " + " ".join(str(error).split())))
        return None
    finally:
        loader.dispose()


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the scalar forms of the reference."""


_TAG = "tag:yaml.org,2002:"
_BOOL = re.compile(r"yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF")
_INT = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]+|0|[1-9][0-9_]*)")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_NULL = re.compile(r"~|null|Null|NULL|")
_MERGE = re.compile(r"<<")

_Loader.yaml_implicit_resolvers = {}
for _name, _form, _first in (
    ("bool", _BOOL, "yYnNtTfFoO"),
    ("int", _INT, "-+0123456789"),
    ("float", _FLOAT, "-+.0123456789"),
    ("null", _NULL, ["~", "n", "N", ""]),
    ("merge", _MERGE, "<"),
):
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(f"(?:{_form.pattern})$"), list(_first))


class _Builder:
    """Turns the node tree of one document into values, noting repeated keys on the way."""

    def __init__(self, loader: _Loader, faults: list[Fault]) -> None:
        self._loader = loader
        self._faults = faults
        self._open: set[int] = set()  # nodes being built: an alias to one of them would never end

    def build(self, node: yaml.Node, path: str) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return self._loader.construct_object(node)
        if id(node) in self._open:
            raise yaml.YAMLError(f"anchor at {path} contains itself")
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self.build(item, f"{path}[{index}]") for index, item in enumerate(node.value)]
            return self._mapping(node, path)
        finally:
            self._open.remove(id(node))

    def _mapping(self, node: yaml.Node, path: str) -> dict[str, Any]:
        if not isinstance(node, yaml.MappingNode):
            raise yaml.YAMLError(f"unexpected {type(node).__name__} at {path}")
        self._note_repeated(node, path)
        self._loader.flatten_mapping(node)
        result = {}
        for key_node, value_node in node.value:
            key = self._key(key_node)
            result[key] = self.build(value_node, f"{path}.{key}" if path else key)
        return result

    def _note_repeated(self, node: yaml.MappingNode, path: str) -> None:
        seen: set[str] = set()
        for key_node, _ in node.value:
            key = self._key(key_node)
            if key in seen and key_node.tag != _TAG + "merge":
                self._faults.append(_repeated(key, f"{path}.{key}" if path else key))
            seen.add(key)

    def _key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise yaml.YAMLError(f"a key must be a scalar (line {node.start_mark.line + 1})")
        return str(node.value)


def _repeated(key: str, path: str) -> Fault:
    return Fault(path, FaultKind.STRICT, detail=f'key "{key}" already set')
