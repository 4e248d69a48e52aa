from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from constrained import JsonSchema, Limits, Matcher, Regex, Vocabulary, compile, fill_masks
from constrained.device import BatchRows, TableMirror
from engine import DeviceConstraint, Sampling
from engine.sampling import Chain, SamplerRow, apply_mask
from engine.sequence import SequenceState, step_masks

CPU = torch.device("cpu")
PERSON = JsonSchema({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}})


@pytest.fixture(scope="module")
def vocabulary(make_vocabulary: Callable[..., Vocabulary]) -> Vocabulary:
    return make_vocabulary("name", '": "', '{"', "age", '": ', "12", padding=40)


def after(matcher: Matcher, text: bytes) -> Matcher:
    for byte in text:
        matcher.accept(byte)
    return matcher


def mixed_batch(vocabulary: Vocabulary) -> list[Matcher | None]:
    """Sequences at several places, of two stores, near a budget, at the end, and without a constraint."""
    person = compile(PERSON, vocabulary)
    other_store = compile(Regex("[a-f]{3}x?"), vocabulary, Limits(states=10_000, bytes=1 << 20))
    assert other_store.store is not person.store
    finished = after(other_store.matcher(), b"abc")
    finished.accept(vocabulary.eos_token_ids[0])
    return [
        person.matcher(),
        None,
        after(person.matcher(), b'{"name": "A'),
        after(person.matcher(max_tokens=13), b'{"name":"'),
        after(person.matcher(max_tokens=500), b'{"na'),
        after(other_store.matcher(), b"ab"),
        finished,
    ]


def host_masks(matchers: list[Matcher | None], vocabulary: Vocabulary) -> list[Any]:
    masks: list[Any] = [None if matcher is None else np.zeros(vocabulary.row_words, np.uint32) for matcher in matchers]
    for matcher, mask in zip(matchers, masks, strict=True):
        if matcher is not None:
            matcher.fill_mask(mask)
    return masks


def test_a_batch_on_the_device_is_masked_as_on_the_host(vocabulary: Vocabulary) -> None:
    matchers = mixed_batch(vocabulary)
    masks = host_masks(matchers, vocabulary)
    assert [matcher is not None and matcher.shared_row() is not None for matcher in matchers] == [
        True, False, True, False, True, True, False,
    ]  # fmt: skip
    logits = torch.randn(len(matchers), vocabulary.size)
    rows = np.stack([np.zeros(vocabulary.row_words, np.uint32) if mask is None else mask for mask in masks])
    wanted = apply_mask(logits, rows, [matcher is not None for matcher in matchers])

    batch = BatchRows.of(matchers, masks, CPU)
    assert torch.equal(batch.apply_(logits.clone()), wanted)
    for places in (slice(2, 3), slice(3, 4), slice(1, 6, 2)):
        assert torch.equal(batch[places].apply_(logits[places].clone()), wanted[places])
    with pytest.raises(ValueError, match="batch of 7"):
        batch.apply_(logits[:3])


def test_masks_near_a_budget_do_not_fill_the_table(vocabulary: Vocabulary) -> None:
    constraint = compile(Regex("[a-z]{2,40}"), vocabulary)
    matcher = constraint.matcher(max_tokens=12)
    mask = np.zeros(vocabulary.row_words, np.uint32)
    before = constraint.table.count
    for byte in b"abcdefghijk":
        matcher.fill_mask(mask)
        BatchRows.of([matcher], [mask], CPU)
        matcher.accept(byte)
    assert matcher.shared_row() is None
    kept = constraint.table.count
    assert kept > before
    matcher.fill_mask(mask)
    logits = BatchRows.of([matcher], [mask], CPU).apply_(torch.zeros(1, vocabulary.size))
    assert constraint.table.count == kept
    assert torch.nonzero(logits[0] == 0).flatten().tolist() == [vocabulary.eos_token_ids[0]]


def test_a_mirror_holds_what_the_table_holds_while_both_grow(make_vocabulary: Callable[..., Vocabulary]) -> None:
    constraint = compile(Regex("(a|b|ab){150}"), make_vocabulary("ab", "ba"))
    table, matcher = constraint.table, constraint.matcher()
    mirror = TableMirror.of(table, CPU)
    assert TableMirror.of(table, CPU) is mirror
    sizes = set()
    for step in range(140):
        with torch.inference_mode(step % 3 == 0):
            number = matcher.state_row()
            rows = mirror.rows()
        sizes.add(len(rows))
        assert mirror.copied == table.count > number
        assert np.array_equal(rows[: number + 1].numpy().view(np.uint32), table.rows[: number + 1])
        matcher.accept(ord("a"))
    assert len(sizes) > 1


def test_a_mirror_goes_with_its_table(make_vocabulary: Callable[..., Vocabulary]) -> None:
    constraint = compile(Regex("abc"), make_vocabulary("gone"))
    constraint.matcher().state_row()
    mirror = TableMirror.of(constraint.table, CPU)
    mirror.rows()
    del constraint
    gc.collect()
    with pytest.raises(ReferenceError, match="gone"):
        mirror.rows()


class Transfers(TorchDispatchMode):
    """Notes the copies from the host, and whether they wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[bool] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if name == "_to_copy" and kwargs.get("device") not in (None, args[0].device):
            self.waiting.append(not kwargs.get("non_blocking", False))
        elif name == "copy_" and args[0].device != args[1].device:
            self.waiting.append(not (args[2] if len(args) > 2 else kwargs.get("non_blocking", False)))
        return func(*args, **kwargs)


def test_from_logits_to_scores_nothing_is_read_back_and_no_copy_waits(vocabulary: Vocabulary) -> None:
    # A tensor on "meta" has no values, so whatever would bring one to the host raises.
    device = torch.device("meta")
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.zeros(1, device=device).item()
    matchers = mixed_batch(vocabulary)
    sequences = [
        SequenceState([1], Sampling(), vocabulary.size, constraint=matcher, max_new_tokens=5) for matcher in matchers
    ]
    for sequence in sequences[:-1]:
        sequence.settle()
    logits = torch.zeros((len(matchers), vocabulary.size), device=device)
    chain = Chain([SamplerRow(Sampling()) for _ in matchers], vocabulary.size, device)
    with Transfers() as transfers:
        masks, constrained = step_masks(sequences, device)
        scores = chain.scores(logits, masks, constrained)
    assert isinstance(masks, BatchRows)
    assert constrained == [matcher is not None for matcher in matchers]
    assert scores.shape == logits.shape
    assert scores is not logits
    assert transfers.waiting
    assert not any(transfers.waiting)


def test_the_engine_takes_matchers_for_constraints_that_devices_know(vocabulary: Vocabulary) -> None:
    matcher = compile(PERSON, vocabulary).matcher()
    assert isinstance(matcher, DeviceConstraint)
    sequence = SequenceState([1], Sampling(), vocabulary.size, constraint=matcher, max_new_tokens=5)
    sequence.settle()
    masks, constrained = step_masks([sequence], CPU)
    assert isinstance(masks, np.ndarray)
    assert constrained is None
    assert np.array_equal(masks[0], sequence.mask)


def test_masks_of_a_batch_equal_the_masks_one_by_one(vocabulary: Vocabulary) -> None:
    matchers = [matcher for matcher in mixed_batch(vocabulary) if matcher is not None]
    wanted = np.stack(host_masks(matchers, vocabulary))
    one_store = [place for place, matcher in enumerate(matchers) if matcher.store is matchers[0].store]
    for places in (range(len(matchers)), one_store, []):
        rows = np.full((len(places), vocabulary.row_words), 7, np.uint32)
        fill_masks([matchers[place] for place in places], rows)
        assert np.array_equal(rows, wanted[list(places)])
    spread = np.full((len(one_store), 2 * vocabulary.row_words), 7, np.uint32)
    fill_masks([matchers[place] for place in one_store], spread[:, ::2])
    assert np.array_equal(spread[:, ::2], wanted[one_store])
    for shape in ((2, vocabulary.row_words), (len(one_store), vocabulary.row_words + 1)):
        with pytest.raises(ValueError):
            fill_masks([matchers[place] for place in one_store], np.zeros(shape, np.uint32))


def test_hits_are_counted_for_matchers_that_live_and_that_have_gone(make_vocabulary: Callable[..., Vocabulary]) -> None:
    constraint = compile(Regex("a{9}"), make_vocabulary("hits"))
    row = np.zeros(constraint.vocabulary.row_words, np.uint32)

    def walked() -> Matcher:
        matcher = constraint.matcher()
        for _ in range(9):
            matcher.fill_mask(row)
            matcher.accept(ord("a"))
        matcher.fill_mask(row)
        return matcher

    walked()
    first = constraint.store.counters()
    assert (first.hits, first.misses) == (0, 10)
    kept = walked()
    assert constraint.store.counters().hits == 10
    fork = kept.fork()
    fork.rollback(2)
    fork.fill_mask(row)
    assert constraint.store.counters().hits == 11
    del kept, fork
    for _ in range(3):
        walked()
    assert constraint.store.counters() == constraint.store.counters()
    assert constraint.store.counters().hits == 41
    assert constraint.store.counters().misses == 10


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_sees_no_synchronisation(vocabulary: Vocabulary) -> None:
    device = torch.device("cuda")
    matchers = mixed_batch(vocabulary)
    masks = host_masks(matchers, vocabulary)
    logits = torch.randn(len(matchers), vocabulary.size, device=device)
    wanted = BatchRows.of(matchers, masks, CPU).apply_(logits.cpu())
    BatchRows.of(matchers, masks, device).apply_(logits.clone())  # compiles the kernel, allocates
    previous = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        masked = BatchRows.of(matchers, masks, device).apply_(logits.clone())
    finally:
        torch.cuda.set_sync_debug_mode(previous)
    assert torch.equal(masked.cpu(), wanted)
