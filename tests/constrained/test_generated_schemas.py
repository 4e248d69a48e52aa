"""Generated schemas over all keywords, through masks: what they let through, and that every walk ends well."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from constrained import BudgetError, Vocabulary, compile
from grammars import EmptyLanguage, JsonSchema
from tests.grammars.json_schema.test_differential import INSTANCES, judge, lawful, schemas

WORDS = [b'":', b'","', b'{"', b'"}', b"},", b"[[", b"]]", b"12", b"ab", b"true", b"null", b',"a":', "é".encode()]
VOCABULARY = Vocabulary.from_token_bytes(
    [*[bytes([byte]) for byte in range(256)], *WORDS, None], eos_token_ids=[256 + len(WORDS)]
)
FEW = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
BUDGET = 60


@pytest.mark.parametrize("draft", ["7", "2020-12"])
def test_masks_let_through_what_two_validators_accept_and_nothing_else(draft: str) -> None:
    @FEW
    @given(schemas(draft), st.lists(INSTANCES, min_size=1, max_size=5))
    def check(schema: dict[str, Any], documents: list[Any]) -> None:
        verdict = judge(schema, draft)
        with lawful():
            try:
                constraint = compile(JsonSchema(schema, property_order="any"), VOCABULARY)
            except EmptyLanguage:
                assert not any(map(verdict, documents))
                return
            for document in documents:
                text = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
                matcher = constraint.matcher()
                taken = matcher.accept_many(list(text)) == len(text) and matcher.is_accepting()
                assert taken == verdict(document), document

    check()


@pytest.mark.parametrize("draft", ["7", "2020-12"])
def test_every_walk_ends_within_its_budget_in_a_document_that_two_validators_accept(draft: str) -> None:
    row = np.zeros(VOCABULARY.row_words, dtype=np.uint32)

    @FEW
    @given(schemas(draft), st.integers(0, 1 << 16), st.sampled_from(["schema", "any"]))
    def check(schema: dict[str, Any], seed: int, order: Any) -> None:
        verdict = judge(schema, draft)
        rng = random.Random(seed)
        with lawful():
            try:
                matcher = compile(JsonSchema(schema, property_order=order), VOCABULARY).matcher(max_tokens=BUDGET)
            except (EmptyLanguage, BudgetError):
                assume(False)
            while not matcher.is_finished():
                matcher.fill_mask(row)
                allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
                matcher.accept(int(rng.choice(allowed)))
        document = json.loads(matcher.text)
        assert verdict(document), document

    check()
