"""Rules of names, labels and quantities that every kind of object obeys.

Each function returns the faults it finds, worded as kube-apiserver words them. Called by `admission` and `pod_rules`.

Source: k8s apimachinery/pkg/api/validate/content, apimachinery/pkg/api/validation/objectmeta.go.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from berth.api.quantity import QuantityError
from berth.sandbox.kinds.errors import FieldError, forbidden_field, invalid_value
from berth.sandbox.kinds.quantities import amount
from berth.sandbox.objects import items, section

JsonObject = dict[str, Any]

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_NAME: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_LABEL_BYTES: Final = 63
_SUBDOMAIN_BYTES: Final = 253
_REMEMBERED: Final = 16_384  # the same few names come again and again
_ANNOTATIONS_BYTES: Final = 256 * 1024

_LABEL_NAMED: Final = frozenset({"Namespace"})
_LABEL_1035_NAMED: Final = frozenset({"Service"})
_PATH_NAMED: Final = frozenset({"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"})


def _pattern_text(intro: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{intro} (e.g. {shown}regex used for validation is '{pattern}')"


def _too_long(limit: int, unit: str = "bytes") -> str:
    return f"must be no more than {limit} {unit}"


@lru_cache(maxsize=_REMEMBERED)
def label_name_faults(name: str) -> tuple[str, ...]:
    """What keeps *name* from being a DNS label."""
    faults = [] if len(name) <= _LABEL_BYTES else [_too_long(_LABEL_BYTES)]
    if not re.fullmatch(_LABEL, name):
        intro = (
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
            "end with an alphanumeric character"
        )
        faults.append(_pattern_text(intro, _LABEL, "my-name", "123-abc"))
    return tuple(faults)


@lru_cache(maxsize=_REMEMBERED)
def subdomain_faults(name: str) -> tuple[str, ...]:
    """What keeps *name* from being a DNS subdomain."""
    faults = [] if len(name) <= _SUBDOMAIN_BYTES else [_too_long(_SUBDOMAIN_BYTES)]
    if not re.fullmatch(_SUBDOMAIN, name):
        intro = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
            "start and end with an alphanumeric character"
        )
        faults.append(_pattern_text(intro, _SUBDOMAIN, "example.com"))
    return tuple(faults)


def _service_name_faults(name: str) -> tuple[str, ...]:
    faults = [] if len(name) <= _LABEL_BYTES else [_too_long(_LABEL_BYTES, "characters")]
    if not re.fullmatch(_LABEL_1035, name):
        intro = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
            "character, and end with an alphanumeric character"
        )
        faults.append(_pattern_text(intro, _LABEL_1035, "my-name", "abc-123"))
    return tuple(faults)


def _path_name_faults(name: str) -> tuple[str, ...]:
    if name in (".", ".."):
        return (f"may not be '{name}'",)
    return tuple(f"may not contain '{letter}'" for letter in "/%" if letter in name)


@lru_cache(maxsize=_REMEMBERED)
def qualified_name_faults(name: str) -> tuple[str, ...]:
    """What keeps *name* from being the key of a label, a taint or the like."""
    prefix, slash, part = name.rpartition("/")
    faults = []
    if slash:
        if not prefix:
            faults.append("prefix part must be non-empty")
        else:
            faults += ["prefix part " + fault for fault in subdomain_faults(prefix)]
    if not part:
        faults.append("name part must be non-empty")
    elif len(part) > _LABEL_BYTES:
        faults.append("name part " + _too_long(_LABEL_BYTES))
    if not re.fullmatch(_NAME, part):
        intro = (
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
            "alphanumeric character"
        )
        faults.append(_pattern_text(intro, _NAME, "MyName", "my.name", "123-abc"))
    return tuple(faults)


@lru_cache(maxsize=_REMEMBERED)
def label_value_faults(value: str) -> tuple[str, ...]:
    """What keeps *value* from being the value of a label."""
    faults = [] if len(value) <= _LABEL_BYTES else [_too_long(_LABEL_BYTES)]
    if not re.fullmatch(_VALUE, value):
        intro = (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
            "start and end with an alphanumeric character"
        )
        faults.append(_pattern_text(intro, _VALUE, "MyValue", "my_value", "12345"))
    return tuple(faults)


def metadata_faults(kind: str, metadata: JsonObject) -> list[FieldError]:
    """What is wrong with name, labels and annotations of an object."""
    name = metadata["name"]
    if kind in _LABEL_NAMED:
        texts = label_name_faults(name)
    elif kind in _LABEL_1035_NAMED:
        texts = _service_name_faults(name)
    elif kind in _PATH_NAMED:
        texts = _path_name_faults(name)
    else:
        texts = subdomain_faults(name)
    faults = [invalid_value("metadata.name", name, text) for text in texts]
    faults += label_faults(section(metadata, "labels"), "metadata.labels")
    faults += _annotation_faults(section(metadata, "annotations"))
    for finalizer in items(metadata, "finalizers"):
        faults += [invalid_value("metadata.finalizers", finalizer, text) for text in qualified_name_faults(finalizer)]
    return faults


def label_faults(labels: JsonObject, field: str) -> list[FieldError]:
    """What is wrong with keys and values of a set of labels."""
    faults = []
    for key, value in labels.items():
        faults += [invalid_value(field, key, text) for text in qualified_name_faults(key)]
        if not isinstance(value, str):
            faults.append(invalid_value(f"{field}.{key}", value, "must be a string"))
        else:
            faults += [invalid_value(field, value, text) for text in label_value_faults(value)]
    return faults


def _annotation_faults(annotations: JsonObject) -> list[FieldError]:
    faults = []
    size = 0
    for key, value in annotations.items():
        faults += [invalid_value("metadata.annotations", key, text) for text in qualified_name_faults(key.lower())]
        size += len(key) + len(value)
    if size > _ANNOTATIONS_BYTES:
        text = f"Too long: may not be more than {_ANNOTATIONS_BYTES} bytes"
        faults.append(FieldError("FieldValueTooLong", "metadata.annotations", text))
    return faults


def resource_list_faults(resources: JsonObject, field: str) -> list[FieldError]:
    """What is wrong with the names and amounts of a resource list."""
    faults = []
    for name, value in resources.items():
        place = f"{field}[{name}]"
        faults += [invalid_value(place, name, text) for text in qualified_name_faults(name)]
        try:
            number = amount(value)
        except QuantityError:
            text = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            faults.append(invalid_value(place, value, text))
            continue
        if number < 0:
            faults.append(invalid_value(place, value, "must be greater than or equal to 0"))
        elif name not in _FRACTIONAL and number.denominator != 1:
            faults.append(invalid_value(place, value, "must be an integer"))
    return faults


_FRACTIONAL: Final = frozenset({"cpu", "memory", "ephemeral-storage", "storage", "pods"})


def immutable(field: str) -> FieldError:
    """A field that was changed and may not be."""
    return forbidden_field(field, "field is immutable")
