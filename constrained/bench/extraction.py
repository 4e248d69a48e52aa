"""Twenty small extraction tasks: a note, and a schema whose values stand in it word for word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_TEXT = {"type": "string", "maxLength": 80}


@dataclass(frozen=True)
class Task:
    """What is to be read out of a note.

    Attributes:
        prompt: the request with the note.
        schema: of the record that is wanted.
    """

    prompt: str
    schema: dict[str, Any]


def _record(*fields: str) -> dict[str, Any]:
    properties: dict[str, Any] = {
        field: {"type": "integer", "minimum": 0} if field.endswith("_count") else _TEXT for field in fields
    }
    return {"type": "object", "properties": properties, "required": list(fields), "additionalProperties": False}


_ORDER = _record("customer_name", "email_address", "delivery_address", "article_number", "item_count")
_EVENT = _record("event_title", "venue_name", "starting_time", "organiser_name", "seat_count")
_BOOK = _record("book_title", "author_name", "publishing_house", "catalogue_number", "page_count")
_REPAIR = _record("device_model", "serial_number", "owner_name", "fault_description", "previous_visit_count")

_NOTES: Sequence[tuple[dict[str, Any], str, Sequence[tuple[str, str, str, str, int]]]] = (
    (
        _ORDER,
        "{0} ({1}) ordered {4} pieces of article {3}. Please deliver to {2}.",
        (
            ("Margarete Lindqvist", "m.lindqvist@northmail.example", "14 Harbour Street, Bergen", "KX-20931-B", 3),
            ("Tobias Okonkwo-Reyes", "tobias.okonkwo@fastpost.example", "7 Elm Court, Lagos", "ZT-11804-Q", 12),
            ("Priya Venkataraman", "priya.v@southpost.example", "221 Temple Road, Chennai", "AB-77120-M", 2),
            ("Jean-Luc Beaumarchais", "jl.beaumarchais@courrier.example", "9 Rue des Lilas, Lyon", "RR-00417-C", 40),
            ("Aleksandra Wojciechowska", "a.wojcie@poczta.example", "33 Mill Lane, Gdansk", "PO-65512-D", 5),
        ),
    ),
    (
        _EVENT,
        "{3} invites you to {0} at {1}. Doors open at {2}, and there are {4} seats.",
        (
            ("An Evening of Baroque Lute Music", "Saint Columba Hall", "19:30 on 4 March", "Ottoline Fairweather", 120),
            ("The Annual Beekeepers' Assembly", "Riverside Pavilion", "10:15 on 22 June", "Casimir Dobrowolski", 85),
            ("Introduction to Celestial Navigation", "Old Observatory", "18:00 on 9 October", "Ingeborg Halvorsen", 24),
            ("Regional Chess Championship Final", "Guildhall Annex", "14:45 on 30 May", "Demetrios Papadakis", 64),
            (
                "Winter Lantern Parade Rehearsal",
                "Market Square Stage",
                "17:20 on 1 December",
                "Fionnuala Geraghty",
                200,
            ),
        ),
    ),
    (
        _BOOK,
        "On the shelf: {0} by {1}, {4} pages, published by {2}, catalogue number {3}.",
        (
            ("A Grammar of Tides", "Wilhelmina Castellanos", "Lanternfish Press", "LF-3307-81", 412),
            ("The Cartographer's Apprentice", "Rasheed Montgomery", "Gallowglass & Sons", "GG-9914-02", 298),
            ("Mosses of the Upper Valley", "Henrietta Vandermolen", "Fieldfare Editions", "FE-1208-55", 176),
            ("Seven Letters to a Clockmaker", "Emeric Szentgyorgyi", "Quillon House", "QH-4471-19", 340),
            ("Bridges Nobody Crossed", "Leocadia Thistlewood", "Paperweight Books", "PB-8023-64", 521),
        ),
    ),
    (
        _REPAIR,
        "{2} brought in a {0}, serial number {1}. Complaint: {3}. It has been here {4} times before.",
        (
            ("Corvane 450 turntable", "CV450-88213-X", "Bartholomew Finch", "the platter wobbles at high speed", 1),
            ("Helmstad R7 espresso machine", "HR7-02914-K", "Anneliese Grauer", "no steam from the left nozzle", 2),
            ("Tarn Mark II bicycle lamp", "TM2-55120-L", "Mohammed El-Sayed", "it flickers when the road is rough", 0),
            ("Wexcombe W90 sewing machine", "WX90-31877-S", "Philippa Dunmore", "the bobbin thread keeps tangling", 4),
            ("Orrin 12 shortwave radio", "OR12-76054-P", "Yevgenia Sorokina", "a loud hum on every frequency", 3),
        ),
    ),
)

TASKS: tuple[Task, ...] = tuple(
    Task(f"Read the record out of this note.\n\n{note.format(*values)}", schema)
    for schema, note, records in _NOTES
    for values in records
)
