"""What selectors of devices can say, what they see, and how they fail."""

from __future__ import annotations

import pytest

from berth.api.dra import Device, DeviceAttribute, DeviceCapacity
from berth.plugins.dynamic_resources.cel import ExpressionError, Shape, matches

DEVICE = Device(
    name="gpu-0",
    attributes={
        "model": DeviceAttribute(string_value="a100"),
        "index": DeviceAttribute(int_value=3),
        "healthy": DeviceAttribute(bool_value=True),
        "firmware": DeviceAttribute(version_value="1.10.3-rc.2+build"),
        "links": DeviceAttribute(string_values=("left", "right")),
        "ports": DeviceAttribute(int_values=(2, 4)),
        "other.example.com/rack": DeviceAttribute(string_value="r1"),
    },
    capacity={"memory": DeviceCapacity(value="40Gi"), "other.example.com/slots": DeviceCapacity(value="1500m")},
    allow_multiple_allocations=True,
)
OWN, MEMORY = 'device.attributes["gpu.example.com"]', 'device.capacity["gpu.example.com"].memory'
FIRMWARE = f"{OWN}.firmware"

TRUE = {
    "the driver": 'device.driver == "gpu.example.com"',
    "a text": f'{OWN}.model == "a100"',
    "a number": f"{OWN}.index >= 3 && {OWN}.index in [1, 2, 3]",
    "a number beside a fraction": f"{OWN}.index < 3.5",
    "a truth": f"{OWN}.healthy",
    "an attribute of another domain": 'device.attributes["other.example.com"].rack.startsWith("r")',
    "an attribute that is there": f'"model" in {OWN}',
    "an attribute that is not there": f'!("nothing" in {OWN})',
    "an attribute that may be missing": f'{OWN}.?nothing.orValue("none") == "none"',
    "a domain that is not there": '!("none.example.com" in device.attributes)',
    "an attribute of a domain that is not there": 'device.attributes["none.example.com"].?x.orValue(7) == 7',
    "a domain that is looked for before it is used": (
        '!("none.example.com" in device.attributes && device.attributes["none.example.com"].x == 1)'
    ),
    "a name for a domain": f'cel.bind(own, {OWN}, own.model == "a100" && own.index == 3)',
    "a macro": 'device.attributes.exists(domain, domain == "other.example.com")',
    "whether it can be shared": "device.allowMultipleAllocations",
    "the whole device": 'device.?driver.hasValue() && device["driver"] == device.driver',
    "fields that all devices have": "has(device.driver) && has(device.attributes)",
    "more than a quantity": f'{MEMORY}.compareTo(quantity("39Gi")) > 0 && {MEMORY}.isGreaterThan(quantity("1"))',
    "the same quantity, written otherwise": f'{MEMORY} == quantity("40960Mi")',
    "sums of quantities": f'{MEMORY}.add(quantity("1Gi")).sub(1) == quantity("44023414783")',
    "a whole quantity": f"{MEMORY}.isInteger() && {MEMORY}.asInteger() == 42949672960 && {MEMORY}.sign() == 1",
    "a fractional quantity": (
        '!device.capacity["other.example.com"].slots.isInteger()'
        ' && device.capacity["other.example.com"].slots.asApproximateFloat() == 1.5'
    ),
    "what is a quantity": 'isQuantity("1Ki") && !isQuantity("one")',
    "a later version": f'{FIRMWARE}.compareTo(semver("1.9.0")) > 0 && {FIRMWARE}.isGreaterThan(semver("1.10.2"))',
    "a version before its release": f'{FIRMWARE}.isLessThan(semver("1.10.3"))',
    "numbers of a pre-release": f'{FIRMWARE}.isLessThan(semver("1.10.3-rc.10"))',
    "the same version, built otherwise": f'{FIRMWARE} == semver("1.10.3-rc.2+other")',
    "parts of a version": f"{FIRMWARE}.major() == 1 && {FIRMWARE}.minor() == 10 && {FIRMWARE}.patch() == 3",
    "a loose version": 'semver("v1.2", true) == semver("1.2.0") && isSemver("v01", true)',
    "what is a version": 'isSemver("1.2.3") && !isSemver("1.2") && !isSemver("1.2.3-01")',
    "a list that includes something": f'{OWN}.links.includes("left") && !{OWN}.links.includes("up")',
    "a single value that is the list": f'{OWN}.model.includes("a100")',
    "a list of numbers": f"{OWN}.ports.sum() == 6 && {OWN}.ports.max() == 4 && {OWN}.ports.min() == 2",
    "a list in order": "[1, 2, 2].isSorted() && ![2, 1].isSorted()",
    "lists as sets": (
        "sets.contains([1, 2], [2]) && sets.intersects([1], [1, 2]) && sets.equivalent([1, 2, 1], [2, 1])"
    ),
    "patterns": '"gpu-a100".find("[0-9]+") == "100" && "a1b2".findAll("[0-9]") == ["1", "2"]',
    "a limited number of matches": '"a1b2".findAll("[0-9]", 1) == ["1"] && "ab".find("[0-9]") == ""',
    "functions of texts": f'{OWN}.model.upperAscii() == "A100" && "a,b".split(",").size() == 2',
    "a failure that does not matter": f"true || {OWN}.nothing == 1",
}


@pytest.mark.parametrize("expression", [pytest.param(text, id=name) for name, text in TRUE.items()])
def test_a_selector_can_ask_for(expression: str) -> None:
    shape = Shape("gpu.example.com", DEVICE)
    assert matches(expression, shape)
    assert not matches(f"!({expression})", shape)


FAILURES = {
    "a missing attribute": (f'{OWN}.nothing == "x"', "CEL runtime error: no such key: nothing"),
    "a missing domain": (
        'device.attributes["none.example.com"].x == 1',
        "CEL runtime error: no such key: x",
    ),
    "unequal types": (f'{OWN}.index > "x"', "CEL runtime error: no such overload"),
    "a text that is a version": (f"{OWN}.model.compareTo(semver('1.0.0')) > 0", "CEL runtime error: no such overload"),
    "division": (f"1 / ({OWN}.index - 3) == 1", "CEL runtime error: division by zero"),
    "no truth": (f"{OWN}.index", "CEL runtime error: CEL result of type int could not be converted to bool"),
    "a quantity that is none": (
        'quantity("much") == quantity("1")',
        "CEL runtime error: want a quantity such as 500m, 2 or 4Gi, got 'much'",
    ),
    "a version that is none": (
        'semver("1") == semver("1.0.0")',
        "CEL runtime error: want a semantic version such as 1.2.3, got '1'",
    ),
    "the largest of nothing": ("[].max() == 1", "CEL runtime error: min/max called on empty list"),
    "a quantity too large": ('quantity("10E").add(quantity("1m")).asInteger() == 1', "cannot convert value to integer"),
    "a number": ("1", "CEL compile error: must evaluate to bool or the unknown type, not int"),
    "half an expression": ("1 +", "CEL compile error: compilation failed: ERROR: <input>:1:4: Syntax error"),
    "an unknown function": ("device.driver.shout()", "CEL compile error: compilation failed: ERROR: <input>"),
    "an unknown variable": ("node.name == 'x'", "CEL compile error: compilation failed: ERROR: <input>"),
    "quantities that cannot be compared like numbers": (
        f'{MEMORY} > quantity("1")',
        "found no matching overload for '_>_' applied to '(kubernetes.Quantity, kubernetes.Quantity)'",
    ),
    "a quantity beside a version": (f'{MEMORY}.compareTo(semver("1.0.0")) > 0', "CEL compile error"),
    "a text beside a number": ("device.driver == 1", "CEL compile error"),
}


@pytest.mark.parametrize(
    ("expression", "text"), [pytest.param(*failure, id=name) for name, failure in FAILURES.items()]
)
def test_a_selector_fails_over(expression: str, text: str) -> None:
    shape = Shape("gpu.example.com", DEVICE)
    for _ in range(2):
        with pytest.raises(ExpressionError) as caught:
            matches(expression, shape)
        assert text in caught.value.text(with_hint=False)


def test_a_missing_key_comes_with_a_hint() -> None:
    with pytest.raises(ExpressionError) as caught:
        matches(f"{OWN}.nothing == 1", Shape("gpu.example.com", DEVICE))
    assert caught.value.text(with_hint=True).endswith(
        "no such key: nothing. consider using CEL optional chaining (.? followed by orValue()) "
        "or guarding the check with has() for optional fields"
    )


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        (DeviceAttribute(version_value="one"), "attribute x: want a semantic version such as 1.2.3, got 'one'"),
        (DeviceAttribute(), "attribute x: unsupported attribute value"),
    ],
)
def test_a_malformed_attribute_is_named(attribute: DeviceAttribute, text: str) -> None:
    shape = Shape("gpu.example.com", Device(name="gpu-0", attributes={"x": attribute}))
    with pytest.raises(ExpressionError, match=text):
        matches(f"{OWN}.y == 1", shape)


def test_a_malformed_capacity_is_named() -> None:
    shape = Shape("gpu.example.com", Device(name="gpu-0", capacity={"memory": DeviceCapacity(value="much")}))
    with pytest.raises(ExpressionError, match="attribute memory: want a quantity"):
        matches(f'{MEMORY} == quantity("1")', shape)


def test_lists_of_versions_are_seen() -> None:
    device = Device(name="gpu-0", attributes={"apis": DeviceAttribute(version_values=("1.0.0", "2.0.0"))})
    assert matches(f'{OWN}.apis.includes(semver("2.0.0"))', Shape("gpu.example.com", device))


def test_what_depends_on_the_driver_alone_is_judged_once_for_all_its_devices() -> None:
    one, other = Shape("a.example.com", DEVICE), Shape("b.example.com", DEVICE)
    expression = 'device.driver == "a.example.com"'
    assert [matches(expression, shape) for shape in (one, other, Shape("a.example.com", Device()))] == [
        True,
        False,
        True,
    ]


def test_more_verdicts_than_are_remembered_are_all_right() -> None:
    shape = Shape("gpu.example.com", DEVICE)
    assert [number for number in range(100) if matches(f"{OWN}.index == {number}", shape)] == [3]
    assert len(shape.verdicts) <= 64
