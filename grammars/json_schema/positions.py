"""Schema positions: where a subschema stands, what it may refer to, and its children, made without looking inside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from grammars.errors import LimitExceeded, SchemaError
from grammars.json_schema.assertions import evaluate, refute
from grammars.json_schema.formulas import FALSE, SHARED, TRUE, Look, Node, Workspace
from grammars.json_schema.reader import shown
from grammars.json_schema.references import Registry, Resource, Target, escape
from grammars.json_schema.shapes import Alternatives
from grammars.json_schema.sharing import sharing
from grammars.json_schema.sure_instances import SureInstances
from grammars.values import Formats, JsonSchema


@dataclass(frozen=True, slots=True)
class Options:
    """What a schema value's language depends on beside the schema."""

    formats: Formats


class Scope:
    """The dynamic scope: resources in the order in which evaluation entered them, each once.

    Positions are unique per subschema and scope, so documents that are one resource share a single scope.
    """

    __slots__ = ("_entered", "options", "positions", "registry", "resources", "workspace")

    def __init__(
        self, registry: Registry | None, workspace: Workspace, options: Options, resources: tuple[Resource, ...]
    ) -> None:
        self.registry = registry
        self.workspace = workspace
        self.options = options
        self.resources = resources
        # By identity of the subschema, which its position (or the document) keeps alive.
        self.positions: dict[int, Node] = {}
        self._entered: dict[Resource, Scope] = {}

    def enter(self, resource: Resource) -> Scope:
        """The scope inside `resource`."""
        if resource in self.resources or self.registry is None:
            return self
        scope = self._entered.get(resource)
        if scope is None:
            scope = Scope(self.registry, self.workspace, self.options, (*self.resources, resource))
            # The same resources in the same order are the same scope, however they were reached.
            self._entered[resource] = scope
        return scope

    def child(self, parent: SchemaValue, schema: Any, keyword: str, name: str | None = None) -> Node:
        """The position of a subschema of `parent` under `keyword` (and `name`, a key or an index)."""
        if schema is True:
            return TRUE
        if schema is False:
            return FALSE
        if type(schema) is not dict:
            place = _below(parent, keyword, name)
            raise SchemaError(f"a schema is an object or a boolean, not {shown(schema)}", place)
        resource = parent.resource
        table = resource.sharing
        if table is None:
            table = resource.sharing = sharing(resource.draft, self.options.formats)
        key = table.key(schema)
        if key is not None:
            if not key:
                return TRUE
            node = table.nodes.get(key)
            if node is None:
                # Nothing of the document may stay alive for it: the pointer is written out, the resource stands in.
                place = _below(parent, keyword, name)
                node = SchemaValue(_shared_scope(self.options), _stand_in(resource), schema, place)
                table.keep(key, node)
            return node
        known = self.positions.get(id(schema))
        if known is not None:
            return known
        scope: Scope = self
        if "$id" in schema or "id" in schema or "$schema" in schema:
            if self.registry is not None:
                resource = self.registry.embedded(schema, resource, _below(parent, keyword, name))
            scope = self.enter(resource)
            if scope is not self and (known := scope.positions.get(id(schema))) is not None:
                return known
        value = SchemaValue(scope, resource, schema, (parent, keyword, name))
        scope.positions[id(schema)] = value
        return value

    def at(self, target: Target, parent: SchemaValue, keyword: str) -> Node:
        """The position that a reference of `parent` leads to."""
        schema = target.schema
        if schema is True:
            return TRUE
        if schema is False:
            return FALSE
        if type(schema) is not dict:
            message = f"the reference leads to {shown(schema)}, which is no schema"
            raise SchemaError(message, parent.pointer, keyword)
        scope = self.enter(target.resource)
        node = scope.positions.get(id(schema))
        if node is None:
            node = scope.positions[id(schema)] = SchemaValue(scope, target.resource, schema, target.pointer)
        return node


_Place = str | tuple["SchemaValue", str, "str | None"]


class SchemaValue(Node):
    """A subschema at its place."""

    __slots__ = ("_place", "_unsure", "options", "resource", "schema", "scope")

    def __init__(self, scope: Scope, resource: Resource, schema: dict[str, Any], place: _Place) -> None:
        super().__init__(scope.workspace)
        self.scope = scope
        self.options = scope.options
        self.resource = resource
        self.schema = schema
        self._place = place
        self._unsure = False

    @property
    def pointer(self) -> str:
        place = self._place
        if not isinstance(place, str):
            place = self._place = _below(*place)
        return place

    def child(self, schema: Any, keyword: str, name: str | None = None) -> Node:
        """The position of a subschema under `keyword` (and `name`)."""
        return self.scope.child(self, schema, keyword, name)

    def surely_inhabited(self) -> bool:
        if self._empty is None and not self._unsure:
            self._unsure = not SureInstances(self.scope.registry).has(self.schema, self.resource)
        return not (self._unsure or self._empty)

    def plainly_scalar(self) -> bool:
        if self._raw is not None:
            return super().plainly_scalar()
        name = self.schema.get("type")
        alone = self.resource.draft.ref_alone and "$ref" in self.schema
        return type(name) is str and name in _SCALAR_TYPES and not alone

    def _evaluate(self, look: Look) -> Alternatives:
        return evaluate(self, look)

    def refuted(self, place: Node, look: Look) -> Alternatives:
        """What the schema does not admit, with the negation pushed into its subschemas."""
        return refute(self, look)


_SCALAR_TYPES = frozenset({"null", "boolean", "integer", "number", "string"})


def _below(parent: SchemaValue, keyword: str, name: str | None) -> str:
    # Iterative, as chains of unread positions can be long.
    tokens = []
    while True:
        tokens.append(f"/{keyword}" if name is None else f"/{keyword}/{escape(name)}")
        place = parent._place
        if isinstance(place, str):
            return place + "".join(reversed(tokens))
        parent, keyword, name = place


# Shared positions refer to nothing, so that one stand-in per draft serves as the resource of all of them.
_SHARED_SCOPES: dict[Options, Scope] = {}
_STAND_INS: dict[object, Resource] = {}


def _shared_scope(options: Options) -> Scope:
    scope = _SHARED_SCOPES.get(options)
    if scope is None:
        scope = _SHARED_SCOPES[options] = Scope(None, SHARED, options, ())
    return scope


def _stand_in(resource: Resource) -> Resource:
    found = _STAND_INS.get(resource.draft)
    if found is None:
        found = _STAND_INS[resource.draft] = Resource("", True, "", "", resource.draft)
    return found


def root_value(schema: JsonSchema) -> Node:
    """The value of a schema's root; nothing below it is looked at yet.

    Raises `SchemaError` where the text is not a schema, `LimitExceeded` where it is nested too deeply to be read.
    """
    try:
        registry = Registry(schema)
    except RecursionError:
        raise LimitExceeded("the schema is nested too deeply", "") from None
    root = registry.root
    if root.root is True:
        return TRUE
    if root.root is False:
        return FALSE
    scope = Scope(registry, Workspace(), Options(schema.formats), (root,))
    value = SchemaValue(scope, root, root.root, "")
    scope.positions[id(root.root)] = value
    return value
