"""Values as formulas: schema positions under conjunction, disjunction and negation, hash-consed.

A formula is normalised when it is made (units, zeros, flattening, De Morgan, `x ∧ ¬x`), and turned into shapes only
when somebody asks.  Each node answers on three levels: `raw()` is the union of shapes before emptiness is decided,
`is_empty()` decides it by a least fixpoint over the raw shapes, `alternatives()` is what remains.

The algebra is that of Attouche et al., "Witness Generation for JSON Schema" (PVLDB 2022).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, cast

from grammars.errors import GrammarError, LimitExceeded, SchemaError
from grammars.json_schema.shapes import Alternatives, Value
from grammars.memory import forgets
from grammars.regular import NONE

if TYPE_CHECKING:
    from grammars.json_schema.shortest import Shortest

# One lock for all schemas: positions of small subschemas are shared between them.
LOCK = threading.RLock()

MAX_DEPTH = 90  # references and in-place applicators followed inside one another
MAX_FORMULAS = 100_000
MAX_SHARED = 20_000
_PROBE_DEPTH = 2


class Workspace:
    """What the nodes of one schema share: the table of formulas and its bound."""

    __slots__ = ("formulas",)

    def __init__(self) -> None:
        self.formulas: dict[object, Node] = {}

    def intern(self, key: object, make: Callable[[], Node], pointer: str) -> Node:
        node = self.formulas.get(key)
        if node is None:
            if self is SHARED:
                if len(self.formulas) >= MAX_SHARED:
                    self.formulas.clear()
            elif len(self.formulas) >= MAX_FORMULAS:
                raise LimitExceeded(f"more than {MAX_FORMULAS} combinations of subschemas", pointer)
            node = self.formulas[key] = make()
        return node


# Home of nodes that belong to no single schema; a full table starts afresh, which costs sharing and nothing else.
SHARED = Workspace()


@forgets
def _forget() -> None:
    with LOCK:
        SHARED.formulas.clear()


class _Progress:
    """How deep the evaluation that holds the lock is."""

    depth = 0
    probes = 0


_WHOLE_BUSY, _SCALARS_BUSY = 1, 2


class Node:
    """A value; identity is equality."""

    __slots__ = (
        "__weakref__", "_alternatives", "_busy", "_empty", "_negation", "_raw", "_scalars", "shortest", "workspace"
    )  # fmt: skip

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self._raw: Alternatives | None = None
        self._scalars: Alternatives | None = None
        self._alternatives: Alternatives | None = None
        self._empty: bool | None = None
        self._negation: Node | None = None
        self._busy = 0  # which looks at it are under way
        self.shortest: Shortest | None = None  # kept by `shortest`

    @property
    def pointer(self) -> str:
        """JSON pointer of the subschema that this value came from."""
        raise NotImplementedError

    def _evaluate(self, look: Look) -> Alternatives:
        """The shapes, other nodes looked at by `look`; where that is `SCALARS_ALONE`, arrays and objects may be left out."""
        raise NotImplementedError

    def refuted(self, place: Node, look: Look) -> Alternatives:
        """The union of shapes that this node does not admit; `place` is the negation, for messages."""
        from grammars.json_schema.algebra import complement

        return complement(look(self), place)

    def surely_inhabited(self) -> bool:
        """A cheap sufficient test that some value satisfies this node."""
        return self._empty is False

    def known_empty(self) -> bool | None:
        """What has been decided so far; `None`: nothing yet."""
        return self._empty

    def settle(self, empty: bool) -> None:
        """Keep a decision about emptiness; only the fixpoint takes one."""
        self._empty = empty

    def raw(self) -> Alternatives:
        """The union of shapes with possibly empty members.  The caller holds the lock."""
        if self._raw is None:
            self._raw = self._worked_out(WHOLE)
        return self._raw

    def scalars(self) -> Alternatives:
        """`raw` without arrays and objects, which are what costs; these are not worked out for it."""
        if self._scalars is None:
            from grammars.json_schema.algebra import scalars_of

            self._scalars = scalars_of(self._worked_out(SCALARS_ALONE) if self._raw is None else self._raw)
        return self._scalars

    def plainly_scalar(self) -> bool:
        """A cheap sufficient test that no array and no object satisfies this node."""
        return self._raw is not None and not self._raw.arrays and not self._raw.objects

    def _worked_out(self, look: Look) -> Alternatives:
        busy = _WHOLE_BUSY if look is WHOLE else _SCALARS_BUSY
        if self._busy & busy:
            raise SchemaError("this subschema refers to itself without anything in between", self.pointer)
        if _Progress.depth >= MAX_DEPTH:
            raise LimitExceeded(f"more than {MAX_DEPTH} subschemas apply in place inside one another", self.pointer)
        self._busy |= busy
        _Progress.depth += 1
        try:
            return self._evaluate(look)
        except RecursionError:
            raise LimitExceeded("the schema is nested too deeply", self.pointer) from None
        except LimitExceeded as error:
            if error.pointer is not None:
                raise
            raise LimitExceeded(error.message, self.pointer, error.keyword) from None
        finally:
            self._busy &= ~busy
            _Progress.depth -= 1

    def alternatives(self) -> Alternatives:
        """The union of inhabited shapes; see `Value`."""
        found = self._alternatives
        if found is None:
            with LOCK:
                from grammars.json_schema.emptiness import inhabited_part

                found = self._alternatives = inhabited_part(self)
        return found

    def is_empty(self) -> bool:
        """Whether no JSON value satisfies this node; see `Value`."""
        if self._empty is None:
            if self.surely_inhabited():
                self._empty = False
            else:
                with LOCK:
                    from grammars.json_schema.emptiness import decide

                    return decide(self)
        return self._empty

    def surely_empty(self) -> bool:
        """A bounded look whether this is a contradiction; `False` may also mean that it was too far to see."""
        if self._empty is not None:
            return self._empty
        if self.surely_inhabited():
            return False
        if self._raw is None:
            if self._busy or _Progress.probes >= _PROBE_DEPTH:
                return False
            _Progress.probes += 1
            try:
                if not is_nothing(self.scalars()):
                    self._empty = False
                    return False
                self.raw()
            except GrammarError:
                return False  # whoever really needs this node will hear of it
            finally:
                _Progress.probes -= 1
        raw = cast(Alternatives, self._raw)
        if is_nothing(raw):
            self._empty = True
            return True
        return False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} #{self.pointer}>"


Look = Callable[[Node], Alternatives]
"""How the shapes of other nodes are asked for: `WHOLE` or `SCALARS_ALONE`."""
WHOLE: Look = Node.raw
SCALARS_ALONE: Look = Node.scalars


def is_nothing(alternatives: Alternatives) -> bool:
    """Whether no shape at all is left; regular languages must have been reduced to `NONE` where they are empty."""
    return not (
        alternatives.literals
        or alternatives.arrays
        or alternatives.objects
        or alternatives.number is not NONE
        or alternatives.string is not NONE
    )


class _Fixed(Node):
    __slots__ = ()

    @property
    def pointer(self) -> str:
        return ""

    def _evaluate(self, look: Look) -> Alternatives:
        from grammars.json_schema.algebra import EVERYTHING, NOTHING

        return EVERYTHING if self is TRUE else NOTHING

    def __repr__(self) -> str:
        return "TRUE" if self is TRUE else "FALSE"


TRUE: Node = _Fixed(SHARED)
FALSE: Node = _Fixed(SHARED)
TRUE._empty, FALSE._empty = False, True
TRUE._negation, FALSE._negation = FALSE, TRUE


class Conjunction(Node):
    """All members hold."""

    __slots__ = ("members",)

    def __init__(self, workspace: Workspace, members: tuple[Node, ...]) -> None:
        super().__init__(workspace)
        self.members = members

    @property
    def pointer(self) -> str:
        return self.members[0].pointer

    def _evaluate(self, look: Look) -> Alternatives:
        from grammars.json_schema.algebra import intersect, intersect_all

        # Conjunctions grow a member at a time; what was found for one member less is a good start.
        if len(self.members) > 2:
            shorter = self.workspace.formulas.get(("and", frozenset(self.members[:-1])))
            if shorter is not None and shorter._raw is not None:
                return intersect(shorter._raw, look(self.members[-1]), self)
        if any(member.plainly_scalar() for member in self.members):
            look = SCALARS_ALONE
        return intersect_all([look(member) for member in self.members], self)


class Disjunction(Node):
    """Some member holds."""

    __slots__ = ("members",)

    def __init__(self, workspace: Workspace, members: tuple[Node, ...]) -> None:
        super().__init__(workspace)
        self.members = members

    @property
    def pointer(self) -> str:
        return self.members[0].pointer

    def surely_inhabited(self) -> bool:
        return self._empty is False or any(member.surely_inhabited() for member in self.members)

    def _evaluate(self, look: Look) -> Alternatives:
        from grammars.json_schema.algebra import unite

        return unite([look(member) for member in self.members])


class Negation(Node):
    """The member, a schema position, does not hold."""

    __slots__ = ("member",)

    def __init__(self, workspace: Workspace, member: Node) -> None:
        super().__init__(workspace)
        self.member = member

    @property
    def pointer(self) -> str:
        return self.member.pointer

    def _evaluate(self, look: Look) -> Alternatives:
        return self.member.refuted(self, look)


class Given(Node):
    """A value whose shapes are known from the start."""

    __slots__ = ("_pointer",)

    def __init__(self, workspace: Workspace, alternatives: Alternatives, pointer: str) -> None:
        super().__init__(workspace)
        self._raw = alternatives
        self._pointer = pointer

    @property
    def pointer(self) -> str:
        return self._pointer


def _home(members: Iterable[Node]) -> Workspace:
    return next((member.workspace for member in members if member.workspace is not SHARED), SHARED)


def conjunction(*values: Value) -> Node:
    """The value that all of `values` admit."""
    members: dict[Node, None] = {}
    for value in values:
        node = cast(Node, value)
        if node is FALSE:
            return FALSE
        if type(node) is Conjunction:
            members.update(dict.fromkeys(node.members))
        elif node is not TRUE:
            members[node] = None
    if len(members) < 2:
        return next(iter(members), TRUE)
    for node in members:
        if type(node) is Negation and node.member in members:
            return FALSE
    home = _home(members)
    return home.intern(
        ("and", frozenset(members)), lambda: Conjunction(home, tuple(members)), next(iter(members)).pointer
    )


def disjunction(*values: Value) -> Node:
    """The value that any of `values` admits."""
    members: dict[Node, None] = {}
    for value in values:
        node = cast(Node, value)
        if node is TRUE:
            return TRUE
        if type(node) is Disjunction:
            members.update(dict.fromkeys(node.members))
        elif node is not FALSE:
            members[node] = None
    if len(members) < 2:
        return next(iter(members), FALSE)
    for node in members:
        if type(node) is Negation and node.member in members:
            return TRUE
    home = _home(members)
    return home.intern(
        ("or", frozenset(members)), lambda: Disjunction(home, tuple(members)), next(iter(members)).pointer
    )


def implies(a: Value, b: Value) -> bool:
    """A cheap sufficient test that everything that `a` admits is admitted by `b`."""
    if a is b or b is TRUE or a is FALSE:
        return True
    if type(a) is Conjunction:
        return (set(b.members) if type(b) is Conjunction else {b}) <= set(a.members)
    return type(b) is Disjunction and (set(a.members) if type(a) is Disjunction else {a}) <= set(b.members)


def negation(value: Value) -> Node:
    """The value that admits what `value` does not."""
    node = cast(Node, value)
    if node._negation is None:
        if isinstance(node, Conjunction):
            node._negation = disjunction(*map(negation, node.members))
        elif isinstance(node, Disjunction):
            node._negation = conjunction(*map(negation, node.members))
        else:
            node._negation = Negation(node.workspace, node)
        node._negation._negation = node
    return node._negation
