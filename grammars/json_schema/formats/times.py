"""date, time, date-time (RFC 3339 section 5.6) and duration (RFC 3339 appendix A).

Days are those of the Gregorian calendar.  Second 60 comes where RFC 3339 section 5.7 has it: in a minute that
is 23:59 in UTC, and in a date-time on the 30th of June or the 31st of December in UTC only, the days whose last minute
has ever been longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from grammars.json_schema.formats.pieces import DIGIT, among, exactly, optional, some, two_digits
from grammars.regular import NONE, PlainUnfolding, Rx, chars, concat, literal, unfold, union

_DASH = literal("-")
_COLON = literal(":")
_T = chars(among("Tt"))
_FRACTION = optional(concat(literal("."), some(DIGIT)))
_HOUR = two_digits(0, 23)
_MINUTE = two_digits(0, 59)
_ZULU = chars(among("Zz"))
_OFFSET = union(_ZULU, concat(chars(among("+-")), _HOUR, _COLON, _MINUTE))
_CLOCK = concat(_HOUR, _COLON, _MINUTE, _COLON, _MINUTE, _FRACTION, _OFFSET)

_NOT_BY_FOUR = union(
    concat(chars(among("02468")), chars(among("1235679"))), concat(chars(among("13579")), chars(among("01345789")))
)
_BY_FOUR = union(
    concat(literal("0"), chars(among("48"))),
    concat(chars(among("2468")), chars(among("048"))),
    concat(chars(among("13579")), chars(among("26"))),
)
_TWO = exactly(DIGIT, 2)
_CENTURY_END = literal("00")
# The year 0000 is left out, as RFC 3339 leaves its use to agreement between the parties (ISO 8601 section 4.1.2.1).
_LEAP_YEAR = union(concat(_TWO, _BY_FOUR), concat(_BY_FOUR, _CENTURY_END))
_COMMON_YEAR = union(concat(_TWO, _NOT_BY_FOUR), concat(_NOT_BY_FOUR, _CENTURY_END))


def date_rx() -> Rx:
    """`full-date`."""
    return _dated(literal(""), None)


def time_rx() -> Rx:
    """`full-time`; an hour and minute whose second 60 is possible say so through their offset."""
    return union(_CLOCK, unfold(_LongMinute(_Day.ANY, "")))


def date_time_rx() -> Rx:
    """`date-time`, with T and Z in either case."""
    return _dated(concat(_T, _CLOCK), _Day)


def _dated(after: Rx, days: type[_Day] | None) -> Rx:
    """A date and what follows it, with long minutes after the days that have them."""
    ends: list[Rx] = []
    if days is not None:
        last = concat(_T, unfold(_LongMinute(_Day.LAST, "")))
        first = concat(_T, unfold(_LongMinute(_Day.FIRST, "")))
        ends.append(concat(union(literal("06-30"), literal("12-31")), union(after, last)))
        ends.append(concat(union(literal("07-01"), literal("01-01")), union(after, first)))
    long = [_days("01", 31, 2 if days else 1), _days("12", 31 - bool(days)), _days("07", 31, 2 if days else 1)]
    rest = [
        *long,
        *(_days(month, 31) for month in ("03", "05", "08", "10")),
        *(_days(month, 30) for month in ("04", "09", "11")),
        _days("06", 30 - bool(days)),
    ]
    common = union(concat(union(*rest, _days("02", 28)), after), *ends)
    leap = union(concat(union(*rest, _days("02", 29)), after), *ends)
    return union(concat(_LEAP_YEAR, _DASH, leap), concat(_COMMON_YEAR, _DASH, common))


def _days(month: str, last: int, first: int = 1) -> Rx:
    return concat(literal(month + "-"), two_digits(first, last))


class _Day(Enum):
    """Whether a local date can have a minute of 61 seconds, and which offsets then are right."""

    ANY = 0
    """No date is given: all offsets that make it 23:59 in UTC."""
    LAST = 1
    """The last day of June or December: the local date is that in UTC."""
    FIRST = 2
    """The day after: local time is ahead of UTC by more than the time of day."""


@dataclass(frozen=True, slots=True)
class _LongMinute(PlainUnfolding):
    """`hh:mm:60` with the offset that makes it 23:59:60 in UTC; `read` is the beginning of `hh:mm`."""

    day: _Day
    read: str

    @property
    def nullable(self) -> bool:
        return False

    @property
    def order(self) -> int:
        return hash((self.day.value, *map(ord, self.read)))

    def moves(self) -> Iterator[tuple[int, int, Rx]]:
        read = self.read
        if len(read) == 2:
            yield 0x3A, 0x3A, unfold(_LongMinute(self.day, read + ":"))
            return
        most = (2, 3 if read == "2" else 9, 0, 5, 9)[len(read)]
        for digit in range(most + 1):
            longer = f"{read}{digit}"
            target = unfold(_LongMinute(self.day, longer)) if len(longer) < 5 else self._offsets(longer)
            if target is not NONE:
                yield 0x30 + digit, 0x30 + digit, target

    def _offsets(self, clock: str) -> Rx:
        minutes = int(clock[:2]) * 60 + int(clock[3:])
        last_minute = minutes == 23 * 60 + 59
        offsets: list[Rx] = []
        if self.day is not _Day.FIRST:
            offsets.append(literal("-" + _clock(23 * 60 + 59 - minutes)))
            if last_minute:
                offsets += [_ZULU, literal("+00:00")]
        if self.day is not _Day.LAST and not last_minute:
            offsets.append(literal("+" + _clock(minutes + 1)))
        if not offsets:
            return NONE
        return concat(literal(":60"), _FRACTION, union(*offsets))


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def duration_rx() -> Rx:
    """`duration`: no fractions, no signs, no unit left out between two others, weeks alone; letters in upper case."""

    def counted(unit: str) -> Rx:
        return concat(some(DIGIT), literal(unit))

    hours = concat(counted("H"), optional(concat(counted("M"), optional(counted("S")))))
    minutes = concat(counted("M"), optional(counted("S")))
    time = concat(literal("T"), union(hours, minutes, counted("S")))
    months = concat(counted("M"), optional(counted("D")))
    date = union(counted("D"), months, concat(counted("Y"), optional(months)))
    return concat(literal("P"), union(concat(date, optional(time)), time, counted("W")))
