"""From a Lark grammar to a context-free grammar in numbers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

from lark.grammar import Rule as LarkRule
from lark.lexer import PatternStr, TerminalDef

from grammars.context_free import END_MARK, ContextFree, Embedded, Indentation, Rule, Terminal
from grammars.context_free.trim import useful_rules
from grammars.errors import GrammarError, LarkError, LimitExceeded, RegexError, UnsupportedFeature
from grammars.lark.collisions import warn_of_collisions
from grammars.lark.contextual import lalr_table, order_of_trial
from grammars.lark.lalr import Table, lalr
from grammars.lark.parsing import Compiled, compiled
from grammars.lark.source import Source, read
from grammars.lark.terminals import Taken, ends_anywhere, taken, taken_alone
from grammars.lark.warned import LarkWarning
from grammars.regular import NONE, literal
from grammars.values import Grammar, Lark, SpecialToken


@dataclass(frozen=True, slots=True)
class _Loader:
    value: Lark
    source: Source
    lark: Compiled
    order: dict[str, int]

    def grammar(self) -> ContextFree:
        terminals = {one.name: one for one in self.lark.terminals}
        used = {symbol.name for rule in self.lark.rules for symbol in rule.expansion if symbol.is_term}
        names = [*terminals, *sorted(used - set(terminals))]
        numbers = {name: number for number, name in enumerate(names)}
        ignored = self.lark.ignored
        made = [self._terminal(name, terminals.get(name), name in ignored) for name in names]
        skipped = {numbers[name] for name in ignored}
        if self.value.lexer != "contextual":
            for name in ignored:
                if name in used and made[numbers[name]].conditional:
                    # Ignored text ends where `re` ends it, other text anywhere: two terminals with one name.
                    skipped.remove(numbers[name])
                    skipped.add(len(made))
                    made.append(made[numbers[name]])
                    made[numbers[name]] = self._terminal(name, terminals[name], False)
        origins = list(dict.fromkeys(rule.origin.name for rule in self.lark.rules))
        nonterminals = {name: number for number, name in enumerate(origins)}
        rules = tuple(self._rule(rule, nonterminals, numbers) for rule in self.lark.rules)
        grammar = ContextFree(
            tuple(map(str, origins)), tuple(made), rules, nonterminals[self.value.start], "every", frozenset(skipped)
        )
        if self.value.lexer == "contextual":
            grammar = self._contextual(grammar, numbers)
        self._name_useless(grammar)
        return grammar

    def _contextual(self, grammar: ContextFree, numbers: dict[str, int]) -> ContextFree:
        priorities = [rule.options.priority or 0 for rule in self.lark.rules]
        table = lalr(grammar.rules, priorities, grammar.start)
        if table.collisions:
            raise self._not_lalr(grammar, table)
        indentation = self._indentation(numbers)
        always = grammar.ignored | (frozenset() if indentation is None else {indentation.newline})
        with_text = range(len(self.lark.terminals))
        made = lalr_table(table, with_text, always)
        tried = ({self.lark.terminals[number].name for number in one} for one in dict.fromkeys(made.accepts))
        warn_of_collisions(self.lark.terminals, grammar.terminals, self.order, tried)
        return replace(grammar, lexing="contextual", lalr=made, indentation=indentation)

    def _not_lalr(self, grammar: ContextFree, table: Table) -> LarkError:
        terminal, rules = table.collisions[0]
        shown = " and ".join(str(self.lark.rules[number]).strip("<>") for number in rules)
        at = "the end" if terminal == END_MARK else grammar.terminals[terminal].name
        first = _author_name(self.lark.rules[rules[0]].origin.name)
        return LarkError(
            f"the grammar is not LALR(1), which lexer='contextual' needs ('dynamic' does not): before {at} it cannot be "
            f"told whether to reduce {shown}",
            *self._place(first),
        )

    def _terminal(self, name: str, made: TerminalDef | None, ignored: bool) -> Terminal:
        if made is None:
            return self._declared(name)
        pattern = made.pattern
        plain = isinstance(pattern, PatternStr)
        shown = str(made.user_repr())
        try:
            if plain and not pattern.flags:
                texts = Taken(literal(pattern.value))
            elif self.value.lexer == "contextual":
                texts = taken(pattern.to_regexp())
            elif ignored:
                texts = taken_alone(pattern.to_regexp())
            else:
                texts = ends_anywhere(pattern.to_regexp())
        except (RegexError, UnsupportedFeature, LimitExceeded) as error:
            raise self._refused(name, made, error) from None
        if any(one.nullable for one in (texts.always, *(words for words, _ in texts.where))):
            raise LarkError(f"the terminal {shown} matches the empty text", *self._place(name, made))
        return Terminal(
            str(name) if name == shown or not name.startswith("__") else shown,
            texts.always,
            priority=made.priority,
            literal=plain,
            pattern=str(pattern.value) if plain else pattern.to_regexp(),
            flags=frozenset(map(str, pattern.flags)),
            order=self.order.get(name, 0),
            conditional=texts.where,
        )

    def _declared(self, name: str) -> Terminal:
        indenter = self.value.indenter
        if indenter is not None and name in (indenter.indent, indenter.dedent):
            return Terminal(name, NONE)
        found = self.source.embedded.get(name)
        if found is None:
            raise LarkError(
                f"the terminal {name} is declared and has no text; only those of an indenter can do without",
                *self._place(name),
            )
        part, written = found
        if self.value.lexer == "contextual":
            raise UnsupportedFeature(
                f"{written} on line {self.source.place(self.source.written.find(written))[0]}: embedded grammars and "
                "special tokens need lexer='dynamic'; Lark's contextual lexer knows nothing of them"
            )
        if isinstance(part, SpecialToken):
            return Terminal(written, part)
        return Terminal(written, Embedded(part) if isinstance(part, Grammar) else literal(part))

    def _refused(self, name: str, made: TerminalDef, error: GrammarError) -> GrammarError:
        line, column = self._place(name, made)
        shown = made.user_repr()
        if isinstance(error, RegexError):
            return LarkError(f"the terminal {shown}: {error}", line, column)
        message = f"the terminal {shown} (line {line}, column {column}): {error}"
        if not isinstance(error, LimitExceeded):
            return UnsupportedFeature(message)
        if self.value.lexer != "contextual" and "(?" in made.pattern.value:
            message += "; lexer='contextual' makes fewer conditions of lookaheads"
        return LimitExceeded(message)

    def _place(self, name: str, made: TerminalDef | None = None) -> tuple[int, int]:
        source = self.source
        if name in source.definitions:
            return source.place(source.definitions[name][0])
        raw = made.pattern.raw if made is not None else None
        if raw in source.literals:
            return source.place(source.literals[raw])
        used = source.names.get(name)
        return source.place(used[0]) if used else (1, 1)

    def _rule(self, rule: LarkRule, nonterminals: dict[str, int], numbers: dict[str, int]) -> Rule:
        name = rule.origin.name
        try:
            symbols = tuple(~numbers[one.name] if one.is_term else nonterminals[one.name] for one in rule.expansion)
        except KeyError as error:
            raise LarkError(
                f"the rule {error.args[0]} is used and never defined", *self._place(error.args[0])
            ) from None
        return Rule(nonterminals[name], symbols, self.source.line(_author_name(name)))

    def _indentation(self, numbers: dict[str, int]) -> Indentation | None:
        indenter = self.value.indenter
        if indenter is None:
            return None
        for name in (indenter.newline, indenter.indent, indenter.dedent):
            if name not in numbers:
                raise LarkError(f"the indenter's terminal {name} occurs in no rule of the grammar", 1, 1)
        return Indentation(
            numbers[indenter.newline],
            numbers[indenter.indent],
            numbers[indenter.dedent],
            frozenset(numbers[name] for name in indenter.open_parens if name in numbers),
            frozenset(numbers[name] for name in indenter.close_parens if name in numbers),
            indenter.tab_len,
        )

    def _name_useless(self, grammar: ContextFree) -> None:
        useful = {grammar.rules[at].origin for at in useful_rules(grammar)}
        useless = dict.fromkeys(
            _author_name(grammar.nonterminals[rule.origin]) for rule in grammar.rules if rule.origin not in useful
        )
        if useless:
            shown = ", ".join(f"{name} (line {self.source.line(name) or '?'})" for name in useless)
            warnings.warn(f"these rules take part in no text of the grammar: {shown}", LarkWarning, stacklevel=2)


def _author_name(name: str) -> str:
    """The rule of the grammar's author that an expanded rule stems from."""
    if name.startswith("__"):
        name = name[2:].rsplit("_", 2)[0]
        for suffix in ("_repeat_a", "_plus", "_star"):
            name = name.partition(suffix)[0]
    return name.partition("{")[0]


def loaded(value: Lark) -> ContextFree:
    """`grammars.lark.load`."""
    source = read(value)
    made = compiled(value, source)
    order: dict[str, int] = {}
    if value.lexer == "contextual":
        try:
            order = order_of_trial(made.terminals)
        except Exception:  # an expression that `re` does not compile; it is named below
            order = {}
    return _Loader(value, source, made, order).grammar()
