"""Where references lead: resources and their base URIs, JSON pointers, anchors, dynamic anchors.

Own code rather than the `referencing` package: that one crawls a document from end to end before its first answer,
which a 4 MB schema of which one corner is used cannot afford.  Here `#/…` pointers are walked directly; a document is
indexed for ids and anchors only when a reference cannot be answered otherwise.

RFC 3986 (URIs), RFC 6901 (pointers), JSON Schema Core 2020-12 sections 8 and 9.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from grammars.errors import SchemaError
from grammars.json_schema.drafts import DRAFTS, UNMARKED, Draft, asserts_formats, draft_of_uri, with_vocabulary
from grammars.json_schema.sharing import Sharing
from grammars.values import JsonSchema
from grammars.values.json_text import read_json

# Applicators by the form of their operand; anything else holds no subschemas of its own.
_ONE = (
    "additionalItems", "additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then",
    "unevaluatedItems", "unevaluatedProperties", "contentSchema",
)  # fmt: skip
_MANY = ("allOf", "anyOf", "items", "oneOf", "prefixItems")
_NAMED = ("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties")


@dataclass(slots=True, eq=False)
class Resource:
    """A schema with a URI of its own: a document's root or an embedded schema with `$id`.

    Attributes:
        uri: absolute base URI without fragment; empty where the document has none.
        root: the schema itself.
        pointer: JSON pointer of `root` in its document.
        document: URI that the document was found under; empty for the caller's schema.
        draft: rules in force inside.
        anchors, dynamic_anchors: name to (schema, pointer); filled when the document is indexed.
        sharing: table of positions that this resource shares with other schemas.
    """

    uri: str
    root: Any
    pointer: str
    document: str
    draft: Draft
    anchors: dict[str, tuple[Any, str]] = field(default_factory=dict)
    dynamic_anchors: dict[str, tuple[Any, str]] = field(default_factory=dict)
    indexed: bool = False
    sharing: Sharing | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """What a reference leads to: a subschema, its pointer in its document, and the resource that it lies in."""

    schema: Any
    pointer: str
    resource: Resource


class Registry:
    """The documents that one schema may refer to, read as far as they are needed."""

    def __init__(self, schema: JsonSchema) -> None:
        self._forced = DRAFTS[schema.draft] if schema.draft is not None else None
        self._texts = {_without_fragment(uri): text for uri, text in schema.resources}
        self._resources: dict[str, Resource] = {}
        self._embedded: dict[int, Resource] = {}
        self._all_indexed = False
        self._vocabularies: dict[str, Draft | None] = {}
        self.root = self._add_document("", schema.document)

    # ---- resources

    def _add_document(self, uri: str, root: Any) -> Resource:
        resource = Resource(uri, root, "", uri, self._forced or self.draft_of(root, UNMARKED))
        own = identifier(root, resource.draft)
        if own is not None:
            resource.uri = _without_fragment(urljoin(uri, own))
        self._resources[uri] = resource
        self._resources.setdefault(resource.uri, resource)
        if isinstance(root, dict):
            self._embedded[id(root)] = resource
        return resource

    def embedded(self, schema: dict[str, Any], parent: Resource, pointer: str) -> Resource:
        """The resource that `schema`, found at `pointer` inside `parent`, belongs to: itself if it names a URI."""
        known = self._embedded.get(id(schema))
        if known is not None:
            return known
        draft = self._forced or self.draft_of(schema, parent.draft)
        own = identifier(schema, draft)
        if own is None:
            return parent
        resource = Resource(_without_fragment(resolve_uri(parent.uri, own)), schema, pointer, parent.document, draft)
        self._resources.setdefault(resource.uri, resource)
        self._embedded[id(schema)] = resource
        return resource

    def draft_of(self, schema: Any, default: Draft) -> Draft:
        """The draft that `$schema` names; `default` where there is none or it is nobody's."""
        uri = schema.get("$schema") if isinstance(schema, dict) else None
        if not isinstance(uri, str):
            return default
        known = draft_of_uri(uri)
        if known is not None:
            return known
        if uri not in self._vocabularies:
            self._vocabularies[uri] = None  # a metaschema that describes itself ends here
            self._vocabularies[uri] = self._draft_of_metaschema(uri)
        return self._vocabularies[uri] or default

    def _draft_of_metaschema(self, uri: str) -> Draft | None:
        """A custom metaschema's draft, with the vocabularies that it declares."""
        text = self._texts.get(_without_fragment(uri))
        metaschema = read_json(text) if text is not None else None
        if not isinstance(metaschema, dict):
            return None
        draft = self.draft_of(metaschema, UNMARKED)
        vocabulary = metaschema.get("$vocabulary")
        return with_vocabulary(draft, vocabulary) if isinstance(vocabulary, dict) else draft

    def _find(self, uri: str) -> Resource | None:
        resource = self._resources.get(uri)
        if resource is not None:
            return resource
        if uri in self._texts:
            return self._add_document(uri, read_json(self._texts[uri]))
        self._index_everything_read()
        resource = self._resources.get(uri)
        if resource is not None:
            return resource
        if uri.partition("://")[2].startswith("json-schema.org/"):
            metaschema = _metaschema(uri)
            if metaschema is not None:
                return self._add_document(uri, metaschema)
        # The URI may be embedded in a document that was given but not read yet.
        for given, text in self._texts.items():
            if given not in self._resources:
                self._index(self._add_document(given, read_json(text)))
        return self._resources.get(uri)

    # ---- index of ids and anchors

    def _index_everything_read(self) -> None:
        for resource in list(self._resources.values()):
            if resource.pointer == "":
                self._index(resource)

    def _document_root(self, resource: Resource) -> Resource:
        return self._resources[resource.document]

    def _index(self, document: Resource) -> None:
        """Record every id and anchor of a document; one iterative pass over its subschemas."""
        if document.indexed:
            return
        document.indexed = True
        stack: list[tuple[Any, str, Resource]] = [(document.root, "", document)]
        while stack:
            schema, pointer, parent = stack.pop()
            if not isinstance(schema, dict):
                continue
            resource = self.embedded(schema, parent, pointer)
            resource.indexed = True
            for keyword in ("$anchor", "$dynamicAnchor"):
                name = schema.get(keyword)
                if isinstance(name, str):
                    resource.anchors.setdefault(name, (schema, pointer))
                    if keyword == "$dynamicAnchor":
                        resource.dynamic_anchors.setdefault(name, (schema, pointer))
            if resource.draft.fragment_ids and not (resource.draft.ref_alone and "$ref" in schema):
                for keyword in resource.draft.id_keywords:
                    name = schema.get(keyword)
                    if isinstance(name, str) and len(name) > 1 and name[0] == "#":
                        resource.anchors.setdefault(name[1:], (schema, pointer))
            stack.extend((child, pointer + below, resource) for child, below in subschemas(schema))

    # ---- references

    def resolve(self, reference: str, resource: Resource, pointer: str, keyword: str) -> Target:
        """Follow `reference`, found inside `resource`.

        Raises `SchemaError` at (`pointer`, `keyword`) where the document is not at hand or the fragment names nothing.
        """
        if reference[:1] == "#":
            base, fragment = resource, reference[1:]
        else:
            uri, fragment = urldefrag(resolve_uri(resource.uri, reference))
            found = resource if uri == resource.uri else self._find(uri)
            if found is None:
                raise SchemaError(
                    f"the reference {reference!r} needs the document {uri!r}, which is not at hand: "
                    "give it in resources=", pointer, keyword,
                )  # fmt: skip
            base = found
        if not fragment:
            return Target(base.root, base.pointer, base)
        fragment = unquote(fragment)
        if fragment[0] == "/":
            target = self._walk(base, fragment)
            if target is None and base.pointer:
                # Nested schemas with an `id` of their own that still point from the document's root are common.
                target = self._walk(self._document_root(base), fragment)
        else:
            target = self._anchor(base, fragment)
        if target is None:
            raise SchemaError(f"the reference {reference!r} leads to nothing", pointer, keyword)
        return target

    def _walk(self, resource: Resource, fragment: str) -> Target | None:
        place: Any = resource.root
        pointer = resource.pointer
        for token in fragment[1:].split("/"):
            if isinstance(place, dict):
                key = token.replace("~1", "/").replace("~0", "~") if "~" in token else token
                if key not in place:
                    return None
                place = place[key]
            elif isinstance(place, list):
                if not token.isdecimal() or int(token) >= len(place):
                    return None
                place = place[int(token)]
            else:
                return None
            pointer = f"{pointer}/{token}"
            if isinstance(place, dict) and ("$id" in place or "id" in place or "$schema" in place):
                resource = self.embedded(place, resource, pointer)
        return Target(place, pointer, resource)

    def _anchor(self, resource: Resource, name: str) -> Target | None:
        self._index(self._document_root(resource))
        found = resource.anchors.get(name)
        if found is None and resource.draft.fragment_ids:
            # Drafts up to 7 let `$id: "#name"` name a place in the whole document.
            found = next(
                (r.anchors[name] for r in self._embedded.values()
                 if r.document == resource.document and name in r.anchors),
                None,
            )  # fmt: skip
        return None if found is None else Target(found[0], found[1], resource)

    def dynamic_anchor(self, resource: Resource, name: str) -> Target | None:
        """The place inside `resource` itself that `$dynamicAnchor` gives `name` to."""
        self._index(self._document_root(resource))
        found = resource.dynamic_anchors.get(name)
        return None if found is None else Target(found[0], found[1], resource)


def format_asserted(schema: JsonSchema) -> bool:
    """Whether `format` is an assertion at the root of this schema, whatever embedded resources declare."""
    if schema.formats != "declared":
        return schema.formats != "annotate"
    return asserts_formats(Registry(schema).root.draft, schema.formats)


def identifier(schema: Any, draft: Draft) -> str | None:
    """The URI reference by which `schema` names itself as a resource; `None` if it does not."""
    if not isinstance(schema, dict):
        return None
    for keyword in draft.id_keywords:
        value = schema.get(keyword)
        if isinstance(value, str):
            if value[:1] == "#" or (draft.ref_alone and "$ref" in schema):
                return None
            return value
    return None


def resolve_uri(base: str, reference: str) -> str:
    """RFC 3986 section 5; a fragment alone also applies to bases of schemes without paths, such as `urn:`."""
    if reference[:1] == "#":
        return base + reference
    return urljoin(base, reference) if base else reference


def _without_fragment(uri: str) -> str:
    return uri.partition("#")[0]


def subschemas(schema: dict[str, Any]) -> Iterator[tuple[Any, str]]:
    """What may be a subschema in any draft, with its pointer below `schema`."""
    for keyword in _ONE:
        if isinstance(schema.get(keyword), dict):
            yield schema[keyword], f"/{keyword}"
    for keyword in _MANY:
        if isinstance(schema.get(keyword), list):
            for index, child in enumerate(schema[keyword]):
                yield child, f"/{keyword}/{index}"
    for keyword in _NAMED:
        if isinstance(schema.get(keyword), dict):
            for name, child in schema[keyword].items():
                yield child, f"/{keyword}/{escape(name)}"


def escape(token: str) -> str:
    """A key as it stands in a JSON pointer (RFC 6901 section 3)."""
    return token.replace("~", "~0").replace("/", "~1") if "~" in token or "/" in token else token


def _metaschema(uri: str) -> Any:
    from jsonschema_specifications import REGISTRY

    for key in (uri, uri + "#"):
        if key in REGISTRY:
            return REGISTRY[key].contents
    return None
