"""Formats against the published test suite, recorded documents, other validators, and readings of the RFCs."""

from __future__ import annotations

import datetime
import ipaddress
import json
import lzma
import random
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import idna
import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from grammars.json_schema.formats import FORMATS, format_rx
from grammars.json_schema.formats.idn_labels import MAX_U_LABEL, left_label_rx, right_label_rx
from grammars.regular import Rx, derivatives, matches, shortest

# A name of 59 Greek letters: its A-label fits, which is no regular property (see docs/formats.md).
TOO_LONG_TO_TELL = re.compile("παράδειγμα.{45,}")


def language(name: str) -> Rx:
    rx = format_rx(name)
    assert rx is not None
    return rx


def accepts(name: str, text: str) -> bool:
    return matches(language(name), text)


def random_word(rx: Rx, rng: random.Random, length: int) -> str:
    """A walk over derivatives, all targets alike, then the shortest way out."""
    text = ""
    while len(text) < length and not (rx.nullable and rng.random() < 0.08):
        following = derivatives(rx)
        if not following:
            break
        wanted = rng.choice(sorted({target.order for _, _, target in following}))
        low, high, rx = rng.choice([move for move in following if move[2].order == wanted])
        text += chr(rng.randint(low, min(high, 0x7E) if low <= 0x7E and rng.random() < 0.5 else high))
    ending = shortest(rx)
    assert ending is not None
    return text + ending


def suite_cases(shared_folder: Path) -> Iterator[tuple[str, str, bool]]:
    with lzma.open(shared_folder / "data" / "json-schema-test-suite.jsonl.xz", "rt") as lines:
        for line in lines:
            group = json.loads(line)
            if "/optional/format/" in group["id"] and group["schema"].get("format") in FORMATS:
                for case in group["tests"]:
                    if isinstance(case["data"], str):
                        yield group["schema"]["format"], case["data"], case["valid"]


def test_the_test_suite_of_json_schema_agrees(shared_folder: Path) -> None:
    wrong = {
        (name, text)
        for name, text, valid in suite_cases(shared_folder)
        if accepts(name, text) != valid and not (name == "idn-hostname" and valid and TOO_LONG_TO_TELL.match(text))
    }
    assert not wrong


def formatted_strings(schema: Any, value: Any, root: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Strings of a valid document under `properties` and `items` whose schema has a format."""
    if not isinstance(schema, dict) or depth > 12:
        return
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        target = root
        for step in reference[2:].split("/"):
            target = target.get(step) if isinstance(target, dict) else None
        yield from formatted_strings(target, value, root, depth + 1)
    elif isinstance(value, str) and isinstance(schema.get("format"), str):
        yield schema["format"], value
    elif isinstance(value, dict) and isinstance(schema.get("properties"), dict):
        for name, item in value.items():
            yield from formatted_strings(schema["properties"].get(name), item, root, depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from formatted_strings(schema.get("items"), item, root, depth + 1)


def test_recorded_valid_documents_keep_their_formats(shared_folder: Path) -> None:
    seen: set[tuple[str, str]] = set()
    with lzma.open(shared_folder / "data" / "maskbench-dev.jsonl.xz", "rt") as lines:
        for line in lines:
            if '"format"' in line:
                record = json.loads(line)
                for test in record["tests"]:
                    if test["valid"]:
                        seen.update(formatted_strings(record["schema"], test["data"], record["schema"]))
    known = {(name, text) for name, text in seen if name in FORMATS}
    assert len(known) > 150
    assert {(name, text) for name, text in known if not accepts(name, text)} == set()


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_other_validators_accept_what_is_generated(name: str) -> None:
    rng = random.Random(7)
    rust = jsonschema_rs.validator_for(
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "format": name}, validate_formats=True
    )
    for _ in range(40):
        text = random_word(language(name), rng, rng.choice([4, 12, 30]))
        assert accepts(name, text)
        assert rust.is_valid(text), (name, text)


# What the Python checkers get wrong, by the clause that says so.
PYTHON_IS_WRONG = {
    "date-time": ":60",  # RFC 3339 section 5.7: leap seconds
    "time": ":60",
    "iri": "[^\\u0000-\\uffff]",  # RFC 3987 section 2.2: ucschar beyond the first plane
    "iri-reference": "[^\\u0000-\\uffff]",
    "uri": "\\[[Vv]",  # RFC 3986 section 3.2.2: "v" in either case
    "uri-reference": "\\[[Vv]",
    "uri-template": "%",  # RFC 6570 section 2.3: varchar may be encoded
    "relative-json-pointer": "^[0-9]*0[0-9]",  # section 3: a zero may stand inside a number
    "regex": r"\(\?<|\\[ckpPu]|\[\]|\[\^\]",  # ECMA-262 section 22.2.1, not Python's syntax
}


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_the_python_checkers_accept_what_is_generated(name: str) -> None:
    checker = Draft202012Validator.FORMAT_CHECKER
    if name not in checker.checkers:
        pytest.skip(f"jsonschema has no checker for {name}")
    rng = random.Random(8)
    exception = re.compile(PYTHON_IS_WRONG.get(name, "(?!)"))
    for _ in range(40):
        text = random_word(language(name), rng, rng.choice([4, 12, 30]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert checker.conforms(text, name) or exception.search(text), (name, text)


def test_unknown_formats_have_no_language() -> None:
    for name in ("color", "int32", "byte", "Date", "", "ip-address"):
        assert format_rx(name) is None


@given(st.dates(), st.integers(-2, 2))
def test_dates_are_the_dates_of_the_calendar(day: datetime.date, shift: int) -> None:
    text = day.isoformat()
    assert accepts("date", text)
    year, month, number = text.split("-")
    shifted = f"{year}-{month}-{int(number) + shift:02}"
    try:
        datetime.date.fromisoformat(shifted)
        valid = True
    except ValueError:
        valid = False
    assert accepts("date", shifted) == valid


@given(st.integers(1, 9999))
def test_the_29th_of_february_comes_in_leap_years(year: int) -> None:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    assert accepts("date", f"{year:04}-02-29") == leap


@given(st.integers(0, 1439), st.integers(-1439, 1439))
def test_second_60_ends_the_day_in_utc(local: int, offset: int) -> None:
    sign = "-" if offset < 0 else "+"
    text = f"{local // 60:02}:{local % 60:02}:60.5{sign}{abs(offset) // 60:02}:{abs(offset) % 60:02}"
    assert accepts("time", text) == ((local - offset) % 1440 == 1439)


@given(st.datetimes(datetime.datetime(1, 1, 3), datetime.datetime(9998, 12, 31)), st.integers(-1439, 1439))
def test_a_date_time_has_second_60_at_the_end_of_june_and_december(moment: datetime.datetime, offset: int) -> None:
    ends = [moment.replace(month=month, day=day, hour=23, minute=59) for month, day in ((6, 30), (12, 31), (9, 30))]
    for utc in (moment, *ends):
        local = utc + datetime.timedelta(minutes=offset)
        sign = "-" if offset < 0 else "+"
        text = f"{local:%Y-%m-%dT%H:%M}:60{sign}{abs(offset) // 60:02}:{abs(offset) % 60:02}"
        text = text.zfill(len("2000-01-01T00:00:60+00:00"))
        last = (utc.month, utc.day) in ((6, 30), (12, 31)) and (utc.hour, utc.minute) == (23, 59)
        assert accepts("date-time", text) == last


@given(st.ip_addresses(v=6))
def test_ipv6_is_what_is_written_for_addresses(address: ipaddress.IPv6Address) -> None:
    assert accepts("ipv6", str(address)) and accepts("ipv6", address.exploded)
    assert not accepts("ipv6", str(address) + "%eth0")


@given(st.text("0123456789abcdef:.", max_size=24))
def test_ipv6_agrees_with_the_standard_library(text: str) -> None:
    try:
        ipaddress.IPv6Address(text)
        valid = True
    except ValueError:
        valid = False
    assert accepts("ipv6", text) == valid


def test_lengths_of_names_and_mail_addresses_are_kept() -> None:
    label = "a" * 63
    assert accepts("hostname", ".".join([label, label, label, "a" * 61]))
    assert not accepts("hostname", ".".join([label, label, label, "a" * 62]))
    assert not accepts("hostname", "a" * 64)
    assert accepts("email", "a" * 64 + "@example.com")
    assert not accepts("email", "a" * 65 + "@example.com")
    assert accepts("idn-email", "é" * 32 + "@example.com")
    assert not accepts("idn-email", "é" * 33 + "@example.com")


def test_reserved_labels_are_refused() -> None:
    assert not accepts("hostname", "ab--cd.example")
    assert accepts("hostname", "a--b.example")
    assert accepts("hostname", "xn--bcher-kva.example")
    assert not accepts("hostname", "xn--bcher-kv.example")


@given(st.text("abcdefghijklmnopqrstuvwxyz0123456789-", max_size=14))
def test_no_a_label_is_accepted_that_does_not_decode(text: str) -> None:
    if accepts("hostname", "xn--" + text):
        assert idna.alabel(idna.ulabel("xn--" + text)).decode() == "xn--" + text


@pytest.mark.parametrize("make", [left_label_rx, right_label_rx])
def test_u_labels_are_valid_and_fit_into_dns(make: Any) -> None:
    rng = random.Random(5)
    for _ in range(60):
        text = random_word(make(), rng, 40)
        assert len(idna.alabel(text)) <= MAX_U_LABEL, text


def test_names_from_right_to_left_want_letters_first_everywhere() -> None:
    assert accepts("idn-hostname", "אב.example")
    assert not accepts("idn-hostname", "0a.אב")
    assert accepts("idn-hostname", "0a.bücher")


@pytest.mark.parametrize(
    "pattern",
    [
        "^[a-z0-9]+(-[a-z0-9]+)*$",
        r"^\d{3,5}(?:\.\d{2})?$",
        r"(?<year>\d{4})-\k<year>",
        r"[^\]\\-]*?|\bfoo\B",
        r"(?<n>a)(?<k>b)\k<k>\k<n>(?<something_else>c)",
        "(?=a)(?!b)(?<=c+)(?<!d)",
        r"\u00e9\x41\cJ\p{Lu}\P{Nd}",
        "a{0}b{1,}c{2,999}",
        "",
    ],
)
def test_common_patterns_are_regexes(pattern: str) -> None:
    assert accepts("regex", pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "a**",
        "*a",
        "a{2,1}",
        "[b-a]",
        "[",
        "\\",
        "]",
        "{",
        "(?=a)*",
        r"\k<a>",
        "(?<a>)(?<a>)",
        "(?<year>)(?<year>)",
        r"\a",
        "(?P<a>)",
    ],
)
def test_what_ecma_262_refuses_is_no_regex(pattern: str) -> None:
    assert not accepts("regex", pattern)
