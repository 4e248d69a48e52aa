"""What is worked out once for a grammar before anything is parsed with it."""

from __future__ import annotations

from dataclasses import dataclass

from grammars.context_free.conflicts import Conflicts
from grammars.context_free.followers import followers
from grammars.context_free.grammar import ContextFree, Rule
from grammars.context_free.keywords import Tried, tried_terminals
from grammars.context_free.layout import check_pairs
from grammars.context_free.lr import Automaton, Firsts, Mask, first_terminals
from grammars.context_free.nullable import nullable_symbols, without_empty_rules
from grammars.context_free.separators import Separation, separation_of
from grammars.context_free.tabled import every_terminal_leads_on
from grammars.context_free.trim import useful_rules


@dataclass(frozen=True, eq=False)
class Prepared:
    """A grammar, and what does not depend on any text.

    Attributes:
        grammar: as it was loaded.
        rules: those that take part in sentences, each with its number in the parse table, if there is one.
        empty: whether the empty text is a sentence although no rule says so.
        separation: how terminals are kept apart; None where they are not, or where the parse table may lead nowhere.
        tried: contextual lexing: for each state of the table, what is tried.
        firsts: what the texts of nonterminals begin with.
        followers: for each terminal, those that may come behind it, ignored ones apart.
    """

    grammar: ContextFree
    rules: tuple[tuple[int, Rule], ...]
    empty: bool
    separation: Separation | None
    tried: tuple[list[Tried], ...]
    firsts: Firsts
    followers: tuple[Mask, ...]

    def automaton(self) -> Automaton:
        """A fresh automaton of the rules."""
        grammar = self.grammar
        return Automaton(
            self.rules, grammar.start, len(grammar.terminals), grammar.lalr, grammar.indentation,
            empty=self.empty, firsts=self.firsts,
        )  # fmt: skip


def prepared(grammar: ContextFree) -> Prepared:
    """The grammar, prepared.

    Raises:
        EmptyLanguage: it has no sentence.
        UnsupportedFeature: with an indenter, a rule that does not close what it opens.
    """
    rules = [(number, grammar.rules[number]) for number in useful_rules(grammar)]
    empty = False
    if grammar.lexing != "contextual":
        plain = [rule for _, rule in rules]
        empty = grammar.start in nullable_symbols(plain)
        rules = list(enumerate(without_empty_rules(plain, len(grammar.nonterminals))[0]))
    if grammar.indentation is not None:
        check_pairs(grammar)
    firsts = first_terminals([rule for _, rule in rules])
    separation = separation_of(grammar)
    if (
        separation is not None
        and grammar.lalr is not None
        and Conflicts(rules, grammar.start, grammar.lalr).were_resolved()
    ):
        automaton = Prepared(grammar, tuple(rules), empty, None, (), firsts, ()).automaton()
        if every_terminal_leads_on(automaton) is False:
            separation = None  # where it cannot be told, no sign against it is taken for enough
    tried = tuple(tried_terminals(grammar)) if grammar.lalr is not None else ()
    layout = grammar.indentation
    behind = followers(
        [rule for _, rule in rules],
        firsts,
        len(grammar.terminals),
        () if layout is None else (layout.indent, layout.dedent),
    )
    return Prepared(grammar, tuple(rules), empty, separation, tried, firsts, behind)
