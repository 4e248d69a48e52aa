"""Whether parse tables that chose between actions still finish what they begin."""

from __future__ import annotations

import pytest

from grammars import Lark
from grammars.context_free.lr import Automaton
from grammars.context_free.tabled import every_terminal_leads_on
from grammars.lark import load

FINISHED = {
    "a branch that belongs to the nearer one": 'start: e\ne: "if" e "else" e | "if" e | "x"',
    "sums without brackets": 'start: e\ne: e "+" e | e "*" e | "x"',
    "no choice at all": 'start: "a" start "b" | "x"',
}
UNFINISHED = {
    "what would end the rule is always read into another": 'start: c "b"\nc: "a" d\nd: | "b" d',
    "every reduction is taken somewhere, and none leads to an end":
        'start: p\np: q r\nr: "x" p "y" | "b"\nq: "a" | "a" "b" q',
}  # fmt: skip


def automaton(text: str) -> Automaton:
    grammar = load(Lark(text, lexer="contextual"))
    return Automaton(list(enumerate(grammar.rules)), grammar.start, len(grammar.terminals), grammar.lalr)


@pytest.mark.parametrize("text", FINISHED.values(), ids=FINISHED)
def test_a_table_that_can_always_come_to_an_end_is_proved_to(text: str) -> None:
    assert every_terminal_leads_on(automaton(text)) is True


@pytest.mark.parametrize("text", UNFINISHED.values(), ids=UNFINISHED)
def test_a_table_that_cannot_come_to_an_end_is_found_out(text: str) -> None:
    assert every_terminal_leads_on(automaton(text)) is False
