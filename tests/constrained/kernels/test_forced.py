"""Text that must follow, against trying every byte."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from constrained.automata.machine import Machine
from constrained.kernels import tables as t
from constrained.kernels.forced import forced_bytes
from tests.constrained.kernels.twins import ALPHABET, TINY, Configuration, Loaded, Spec, specs, walk


def dictated(spec: Spec, here: Configuration, room: int) -> tuple[bytes, bool]:
    """The bytes that must follow, `room` at most, and whether nothing may follow them."""
    made = b""
    while len(made) < room:
        ways = {byte: spec.step(here, byte) for byte in ALPHABET}
        after = {byte: way for byte, way in ways.items() if isinstance(way, tuple)}
        if not after:
            return made, True
        if len(after) > 1 or spec.step(here, 256) is True:
            break
        ((byte, here),) = after.items()
        made += bytes([byte])
    return made, False


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), specs(), st.integers(0, 9))
def test_what_is_forced_is_what_alone_may_follow(data: st.DataObject, spec: Spec, room: int) -> None:
    note(str(spec))
    loaded = Loaded(spec, Machine(8, TINY))
    machine = loaded.machine
    for configuration in walk(data.draw, spec, 4):
        cells, cell, top = loaded.cells(configuration[1])
        position = np.zeros(7, dtype=np.int64)
        position[:3] = loaded.state(configuration[0]), cell, top
        out = np.full(room, 255, dtype=np.uint8)
        while True:
            status = forced_bytes(machine.states, machine.maps, machine.actions, machine.memo, cells, position, out)
            if status == t.UNKNOWN_STATE:
                machine.expand(int(position[4]))
            elif status == t.UNKNOWN_POP:
                machine.resolve(int(position[4]), int(position[5]))
            else:
                break
        assert status == t.OK
        expected, closed = dictated(spec, configuration, room)
        assert out[: position[3]].tobytes() == expected
        assert bool(position[6]) == closed
        assert loaded.configuration(int(position[0]), cells, int(position[1])) == _after(spec, configuration, expected)


def _after(spec: Spec, configuration: Configuration, data: bytes) -> Configuration:
    found = spec.run(configuration, data)
    assert found is not None
    return found
