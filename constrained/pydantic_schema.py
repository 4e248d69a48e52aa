"""JSON Schemas of Python types, written so that what fits the schema also passes the type's own validation.

Pydantic's schemas describe what a model accepts from strangers.  For generation they are narrowed, never widened:

- an object takes no properties beyond those declared, unless the model asks for them (`extra="allow"`): a model would
  ignore them and they cost tokens;
- a tagged union is written as `anyOf`: its members differ in the tag, so at most one can match anyway;
- whole numbers keep to 64 bits and others to what a double holds, beyond which Pydantic reads `1e400` as infinite;
- decimals are numbers with the digits that the type allows, URLs have one of the type's schemes, a UUID its version;
- the tag of a tagged union is written out, and keys of a mapping are texts that its type of keys reads;
- dates and times leave out the year 0000 and leap seconds, which RFC 3339 has and Python's `datetime` has not, and
  durations stay below what a `timedelta` can hold.
"""

from __future__ import annotations

import re
import sys
from typing import Any, Final

from pydantic import PydanticUserError, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import core_schema

from constrained.errors import SchemaError
from constrained.pydantic_formats import COMPLEX, multi_host_pattern, with_known_formats
from constrained.pydantic_keys import key_names

# The largest 64-bit number that a double holds too: `9.2e18` is read by way of a double.
_LARGEST_INT: Final = 2**63 - 1024
_YEAR: Final = "^(000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})-"
_DATE_TIME: Final = _YEAR + "[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-5]"
_TIME: Final = "^[0-9]{2}:[0-9]{2}:[0-5]"
_DURATION: Final = "^[^0-9]*([0-9]{1,4}[^0-9]+)*$"
_HOST: Final = "([a-z0-9]{1,20}([.-][a-z0-9]{1,20}){0,4}[.])?[a-z][a-z0-9]{0,20}"
_PATH: Final = "(/[A-Za-z0-9_~.-]*)*([?][A-Za-z0-9_~.=&-]*)?(#[A-Za-z0-9_~.-]*)?"
_NAIVE: Final = (
    _YEAR
    + "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
    + "T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?$"
)


class _PlainSchema(GenerateJsonSchema):
    # A default that JSON cannot write is simply not written; nothing depends on it.
    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012


class _GenerationSchema(_PlainSchema):
    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return _closed(super().model_schema(schema))

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return _closed(super().dataclass_schema(schema))

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        return _closed(super().typed_dict_schema(schema))

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        written = super().tagged_union_schema(schema)
        choices = written.pop("oneOf", None)
        name = written.pop("discriminator", {}).get("propertyName")
        if choices is not None:
            # the tag has to be there even where it has a default, since Pydantic chooses by it before defaults count
            written["anyOf"] = [_requiring(choice, name) for choice in choices] if name else choices
        return written

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        written = super().dict_schema(schema)
        by_pattern = written.pop("patternProperties", None)
        if by_pattern is not None:  # Pydantic takes no other keys than those of the one pattern
            (written["additionalProperties"],) = by_pattern.values()
        held = self.generate_inner(schema["keys_schema"]) if "keys_schema" in schema else {}
        names = key_names(held, self.get_schema_from_definitions)
        if names is not None:
            written["propertyNames"] = names
        return written

    def bytes_schema(self, schema: core_schema.BytesSchema) -> JsonSchemaValue:
        written = super().bytes_schema(schema)
        # lengths are of bytes: one for each character where all of them are ASCII
        return written | {"pattern": "^[ -~]*$"} if "maxLength" in written else written

    def date_schema(self, schema: core_schema.DateSchema) -> JsonSchemaValue:
        return super().date_schema(schema) | {"pattern": _YEAR}

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        if schema.get("tz_constraint") == "naive":  # RFC 3339 has no times without an offset
            return {"type": "string", "pattern": _NAIVE}
        return super().datetime_schema(schema) | {"pattern": _DATE_TIME}

    def time_schema(self, schema: core_schema.TimeSchema) -> JsonSchemaValue:
        return super().time_schema(schema) | {"pattern": _TIME}

    def timedelta_schema(self, schema: core_schema.TimedeltaSchema) -> JsonSchemaValue:
        written = super().timedelta_schema(schema)
        return written | {"pattern": _DURATION} if written.get("format") == "duration" else written

    def int_schema(self, schema: core_schema.IntSchema) -> JsonSchemaValue:
        return _bounded(super().int_schema(schema), _LARGEST_INT)

    def float_schema(self, schema: core_schema.FloatSchema) -> JsonSchemaValue:
        return _bounded(super().float_schema(schema), sys.float_info.max)

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        written: JsonSchemaValue = {"type": "number"}
        for bound, keyword in (
            ("ge", "minimum"),
            ("le", "maximum"),
            ("gt", "exclusiveMinimum"),
            ("lt", "exclusiveMaximum"),
        ):
            if bound in schema:
                written[keyword] = _number(schema[bound])  # type: ignore[literal-required]
        written = _bounded(written, sys.float_info.max)
        places, digits = schema.get("decimal_places"), schema.get("max_digits")
        if digits is not None and places is None:
            places = digits // 2  # any split of the digits keeps to the type
        if places is not None:
            written["multipleOf"] = float(f"1e-{places}") if places else 1
        if schema.get("multiple_of") is not None:
            step = {"multipleOf": _number(schema["multiple_of"])}
            written = {"allOf": [written, step]} if "multipleOf" in written else written | step
        if digits is not None:
            limit = 10 ** (digits - (places or 0))
            return {"type": "number", "allOf": [written], "exclusiveMinimum": -limit, "exclusiveMaximum": limit}
        return written

    def uuid_schema(self, schema: core_schema.UuidSchema) -> JsonSchemaValue:
        version = schema.get("version")
        if version is None:
            return {"type": "string", "format": "uuid"}
        # Pydantic's own type puts a format "uuid4" beside it, which JSON Schema does not know.
        pattern = f"^[0-9a-f]{{8}}-[0-9a-f]{{4}}-{version}[0-9a-f]{{3}}-[89ab][0-9a-f]{{3}}-[0-9a-f]{{12}}$"
        return {"type": "string", "pattern": pattern}

    def url_schema(self, schema: core_schema.UrlSchema) -> JsonSchemaValue:
        schemes = "|".join(map(re.escape, schema.get("allowed_schemes") or ("https", "http")))
        written: JsonSchemaValue = {"type": "string", "pattern": f"^({schemes})://{_HOST}(:[1-9][0-9]{{1,3}})?{_PATH}$"}
        return written | ({"maxLength": schema["max_length"]} if schema.get("max_length") else {})

    def multi_host_url_schema(self, schema: core_schema.MultiHostUrlSchema) -> JsonSchemaValue:
        schemes = [re.escape(scheme) for scheme in schema.get("allowed_schemes") or ("https", "http")]
        written: JsonSchemaValue = {"type": "string", "pattern": multi_host_pattern(schemes)}
        return written | ({"maxLength": schema["max_length"]} if schema.get("max_length") else {})

    def complex_schema(self, schema: core_schema.ComplexSchema) -> JsonSchemaValue:
        return {"type": "string", "pattern": COMPLEX}


def _requiring(choice: JsonSchemaValue, name: str) -> JsonSchemaValue:
    required = choice.get("required", [])
    return choice if name in required else choice | {"required": [*required, name]}


def _bounded(written: JsonSchemaValue, largest: float) -> JsonSchemaValue:
    """The schema with its numbers kept within ±`largest`, whatever its own bounds are.

    Raises:
        SchemaError: all of them lie beyond.
    """
    least = max(written.get("minimum", -largest), written.get("exclusiveMinimum", -largest))
    most = min(written.get("maximum", largest), written.get("exclusiveMaximum", largest))
    if least > largest or most < -largest:
        raise SchemaError(
            f"a number of a type keeps to -{largest:g} to {largest:g}, and the bounds {_bounds(written)} leave none of "
            "these: use other bounds, or a JSON Schema in place of the type"
        )
    for bound, exclusive, end in (("minimum", "exclusiveMinimum", -largest), ("maximum", "exclusiveMaximum", largest)):
        if bound in written and abs(written[bound]) > largest:
            written[bound] = end
        if exclusive in written and abs(written[exclusive]) > largest:
            del written[exclusive]
        if exclusive not in written:
            written.setdefault(bound, end)
    return written


def _bounds(written: JsonSchemaValue) -> str:
    names = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
    return ", ".join(f"{name} {written[name]}" for name in names if name in written)


def _number(value: Any) -> int | float:
    return int(value) if value == int(value) else float(value)


def _closed(written: JsonSchemaValue) -> JsonSchemaValue:
    # A model whose members stand elsewhere is a mere reference here.
    if written.get("type") == "object" and "properties" in written:
        written.setdefault("additionalProperties", False)
    return written


def adapter_of(source: Any) -> TypeAdapter[Any]:
    """The Pydantic adapter of a type.

    Raises:
        SchemaError: Pydantic cannot make one; its own words say why.
    """
    if isinstance(source, TypeAdapter):
        return source
    try:
        return TypeAdapter(source)
    except PydanticUserError as error:
        raise SchemaError(f"{_name(source)} cannot be a schema: {_first_line(error)}") from error
    except (NameError, ImportError) as error:  # a forward reference to nothing; a package that the type needs
        raise SchemaError(f"{_name(source)} cannot be a schema: {error}") from error


def json_schema_of(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) that texts for this type are generated under.

    Raises:
        SchemaError: the type holds something that JSON Schema cannot say (a callable, an arbitrary class).
    """
    try:
        written: dict[str, Any] = adapter.json_schema(mode="validation", schema_generator=_GenerationSchema)
        return with_known_formats(written)  # type: ignore[no-any-return]
    except (PydanticInvalidForJsonSchema, PydanticUserError) as error:
        raise SchemaError(f"the type has no JSON Schema: {_first_line(error)}") from error


def described(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """The JSON Schema as Pydantic writes it, for people and models to read."""
    return adapter.json_schema(mode="validation", schema_generator=_PlainSchema)


def _name(source: Any) -> str:
    return getattr(source, "__name__", None) or repr(source)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
