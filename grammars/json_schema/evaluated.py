"""`unevaluatedProperties` and `unevaluatedItems`: what the subschemas in place have not looked at.

JSON Schema Core 2020-12, section 11.  A schema is split into branches, each a formula with the keys and items that are
evaluated by whatever satisfies it.  The evaluated part of a branch is never more than what really is evaluated, and
some branch has exactly that, so a union over the branches is exact, and none of them needs a negation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from grammars import regular
from grammars.errors import LimitExceeded
from grammars.json_schema.algebra import EVERYTHING, NOTHING, intersect, unite
from grammars.json_schema.applicators import REFERENCES, branches_of, target
from grammars.json_schema.array_algebra import array_shape
from grammars.json_schema.arrays import items_of
from grammars.json_schema.formulas import FALSE, TRUE, Given, Node, conjunction, disjunction, negation
from grammars.json_schema.object_algebra import ANY_KEY, object_shape
from grammars.json_schema.objects import split_keys
from grammars.json_schema.reader import mapping
from grammars.json_schema.scalars import pattern_language
from grammars.json_schema.shapes import Alternatives, ObjectShape, Property
from grammars.regular import ALL, NONE, Rx

if TYPE_CHECKING:
    from grammars.json_schema.positions import SchemaValue

UNEVALUATED = frozenset({"unevaluatedProperties", "unevaluatedItems"})
MAX_BRANCHES = 256


@dataclass(frozen=True, slots=True)
class Branch:
    """A way to satisfy a schema, and what it evaluates.

    Attributes:
        condition: formula to be satisfied beside the schema itself.
        names: keys that are evaluated.
        items: so many first items are evaluated; `None`: all.
        contained: items that satisfy one of these are evaluated too.
    """

    condition: Node = TRUE
    names: Rx = NONE
    items: int | None = 0
    contained: frozenset[Node] = frozenset()

    def joined(self, other: Branch) -> Branch:
        """Both at once."""
        return Branch(
            conjunction(self.condition, other.condition),
            regular.union(self.names, other.names),
            None if self.items is None or other.items is None else max(self.items, other.items),
            self.contained | other.contained,
        )


def with_unevaluated(value: SchemaValue, present: frozenset[str], found: Alternatives) -> Alternatives:
    """`found` under the unevaluated keywords of the schema, all its other keywords being in `found` already."""
    schema = value.schema
    properties = items = TRUE
    if "unevaluatedProperties" in present:
        properties = value.child(schema["unevaluatedProperties"], "unevaluatedProperties")
    if "unevaluatedItems" in present:
        items = value.child(schema["unevaluatedItems"], "unevaluatedItems")
    if properties is TRUE and items is TRUE:
        return found
    kept = []
    for branch in _branches(value, present - UNEVALUATED):
        part = intersect(found, branch.condition.raw(), value)
        if part is not NOTHING:
            kept.append(intersect(part, _limited(branch, properties, items, value), value))
    return unite(kept)


def _limited(branch: Branch, properties: Node, items: Node, value: SchemaValue) -> Alternatives:
    """Arrays and objects whose unevaluated parts satisfy the two schemas; everything else."""
    arrays, objects = EVERYTHING.arrays, EVERYTHING.objects
    if branch.items is not None and items is not TRUE:
        shape = array_shape([TRUE] * branch.items, disjunction(items, *branch.contained))
        arrays = () if shape is None else (shape,)
    if properties is not TRUE:
        members = object_shape((), split_keys([(branch.names, TRUE)], properties, value.pointer))
        objects = () if members is None else (members,)
    return Alternatives(EVERYTHING.literals, EVERYTHING.number, EVERYTHING.string, arrays, objects)


def _branches(value: SchemaValue, present: frozenset[str]) -> list[Branch]:
    """The branches of a schema by the keywords in `present`."""
    schema = value.schema
    branches = [_own(value, present)]
    for keyword in REFERENCES:
        if keyword in present:
            branches = _product(branches, _of(target(value, keyword)), value)
    if "allOf" in present:
        for node in branches_of(value, "allOf"):
            branches = _product(branches, _of(node), value)
    if "anyOf" in present:
        branches = _product(branches, _any_of(branches_of(value, "anyOf"), value), value)
    if "oneOf" in present:
        # The schema itself sees to it that one holds alone.
        one = [replace(b, condition=conjunction(n, b.condition)) for n in branches_of(value, "oneOf") for b in _of(n)]
        branches = _product(branches, one, value)
    if "if" in present:
        condition = value.child(schema["if"], "if")
        yes = [replace(b, condition=conjunction(condition, b.condition)) for b in _of(condition)]
        if "then" in schema:
            yes = _product(yes, _of(value.child(schema["then"], "then")), value)
        no = _of(value.child(schema["else"], "else")) if "else" in schema else [Branch()]
        no = [replace(b, condition=conjunction(negation(condition), b.condition)) for b in no]
        branches = _product(branches, yes + no, value)
    for keyword in ("dependentSchemas", "dependencies"):
        if keyword in present:
            for name, operand in mapping(schema, keyword, value.pointer).items():
                if isinstance(operand, dict | bool):
                    node = value.child(operand, keyword, name)
                    holder = _holding(name, value)
                    held = [replace(b, condition=conjunction(holder, b.condition)) for b in _of(node)]
                    branches = _product(branches, [Branch(), *held], value)
    return branches


def _of(node: Node) -> list[Branch]:
    """The branches of a position that applies in place."""
    from grammars.json_schema.positions import SchemaValue

    if not isinstance(node, SchemaValue):
        return [Branch()]
    draft = node.resource.draft
    present = draft.keywords.intersection(node.schema)
    if draft.ref_alone and "$ref" in present:
        return _of(target(node, "$ref"))
    return _branches(node, present)


def _any_of(nodes: list[Node], value: SchemaValue) -> list[Branch]:
    """Branches for every non-empty set of nodes that may hold together."""
    holding: list[Branch] = []
    for node in nodes:
        mine = [replace(branch, condition=conjunction(node, branch.condition)) for branch in _of(node)]
        together = [b for b in _product(holding, mine, value) if not b.condition.surely_empty()]
        holding = _reduced([*holding, *mine, *together], value)
    return holding


def _product(a: Iterable[Branch], b: Iterable[Branch], value: SchemaValue) -> list[Branch]:
    return _reduced([x.joined(y) for x in a for y in b], value)


def _reduced(branches: Iterable[Branch], value: SchemaValue) -> list[Branch]:
    kept = list(dict.fromkeys(branch for branch in branches if branch.condition is not FALSE))
    if len(kept) > MAX_BRANCHES:
        raise LimitExceeded(f"more than {MAX_BRANCHES} ways to evaluate properties or items", value.pointer)
    return kept


def _own(value: SchemaValue, present: frozenset[str]) -> Branch:
    """What the schema's own keywords evaluate."""
    schema, pointer = value.schema, value.pointer
    names: list[Rx] = []
    if "additionalProperties" in present or "unevaluatedProperties" in present:
        names = [ALL]
    else:
        if "properties" in present:
            names.append(regular.literals(list(mapping(schema, "properties", pointer))))
        if "patternProperties" in present:
            patterns = mapping(schema, "patternProperties", pointer)
            names += [pattern_language(pattern, pointer, "patternProperties") for pattern in patterns]
    items: int | None = 0
    if "unevaluatedItems" in present:
        items = None
    elif "items" in present or "prefixItems" in present:
        prefix, _ = items_of(value, present)
        whole = "items" in present and (not isinstance(schema["items"], list) or "additionalItems" in schema)
        items = None if whole else len(prefix)
    contained = frozenset[Node]()
    if "contains" in present and value.resource.draft.contains_evaluates:
        contained = frozenset((value.child(schema["contains"], "contains"),))
    return Branch(TRUE, regular.union(*names) if names else NONE, items, contained)


def _holding(name: str, value: SchemaValue) -> Node:
    """The objects that hold a key."""
    shape = ObjectShape((Property(name, TRUE, True, False),), ANY_KEY)
    only = replace(NOTHING, objects=(shape,))
    return value.workspace.intern(("holds", name), lambda: Given(value.workspace, only, value.pointer), value.pointer)
