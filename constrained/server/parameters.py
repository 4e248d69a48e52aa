"""Parameters that requests of several routes share, and those that are known and not to be had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, field_validator, model_validator
from pydantic_core import PydanticCustomError

from constrained.reasoning import ReasoningOptions
from engine.sampling import Sampling

Flag = Annotated[bool, Strict()]
Count = Annotated[int, Strict(), Field(ge=1)]


def wrong(param: str, why: str) -> PydanticCustomError:
    """What refuses a parameter for more than its own form."""
    return PydanticCustomError("wrong_parameter", "{why}", {"param": param, "why": why})


class Parameters(BaseModel):
    """A request; what it does not know, it refuses, and null says nothing."""

    model_config = ConfigDict(extra="forbid", strict=False)

    refused: ClassVar[Mapping[str, tuple[tuple[Any, ...], str]]] = {}
    """Parameters that are known: the values with which they ask for nothing, and why any other is refused."""

    @model_validator(mode="before")
    @classmethod
    def _refuse(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        kept = dict(values)
        for name, (neutral, why) in cls.refused.items():
            if name in kept:
                value = kept.pop(name)
                if value is not None and value not in neutral:
                    raise wrong(name, f"{name} is not supported: {why}")
        known = {name for key, info in cls.model_fields.items() for name in (key, info.alias)}
        return {name: value for name, value in kept.items() if value is not None or name not in known}


class StreamOptions(Parameters):
    """`stream_options`."""

    include_usage: Flag = False
    refused = {
        "include_obfuscation": ((False,), "nothing is padded"),
        "continuous_usage_stats": ((False,), "usage comes at the end"),
    }


class StructuredOutputs(Parameters):
    """`structured_outputs`, as vLLM has it; one grammar, and what goes with it."""

    json_: dict[str, Any] | str | bool | None = Field(None, alias="json")
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: Flag | None = None
    whitespace_pattern: str | None = None
    disable_any_whitespace: bool | None = None
    disable_additional_properties: Literal[False] | None = None
    disable_fallback: bool | None = None
    structural_tag: dict[str, Any] | str | None = None


class ReasoningParameters(Parameters):
    """`reasoning`: whether the model is to think first, and how much."""

    enabled: Flag | None = None
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    max_tokens: Count | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None
    generate_summary: Literal["auto", "concise", "detailed"] | None = None

    refused: ClassVar = {"exclude": ((False,), "thoughts are a field of their own")}

    def options(self) -> ReasoningOptions | bool | None:
        """What `LLM.reply` is told; `None` leaves it to the model."""
        if self.enabled is False or self.effort == "none":
            return False
        if self.max_tokens is not None:
            return ReasoningOptions(max_tokens=self.max_tokens)
        return True if self.enabled else None


class SamplingParameters(Parameters):
    """How tokens are drawn, OpenAI's names first, vLLM's after."""

    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] = 0.0
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] = 0.0
    logit_bias: dict[int, Annotated[float, Field(ge=-100, le=100)]] | None = None
    seed: int | None = None
    top_k: int = 0
    min_p: float = 0.0
    typical_p: float = 1.0
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0

    def sampling(self, choice: int, logprobs: int | None) -> Sampling:
        """Of one of the request's answers; each has a seed of its own."""
        seed = None if self.seed is None else (self.seed + choice) % 2**64
        return Sampling(
            temperature=self.temperature,
            top_k=max(self.top_k, 0),
            top_p=self.top_p,
            min_p=self.min_p,
            typical_p=self.typical_p,
            repetition_penalty=self.repetition_penalty,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            no_repeat_ngram=self.no_repeat_ngram_size,
            logit_bias={
                token: float("-inf") if bias == -100 else bias for token, bias in (self.logit_bias or {}).items()
            },
            seed=seed,
            logprobs=logprobs,
        )


BACKENDS = ("auto", "xgrammar", "guidance", "outlines", "lm-format-enforcer")
"""Names that clients of vLLM know; with options behind a colon."""


class GuidedParameters(SamplingParameters):
    """Grammars under the names that vLLM's users send."""

    structured_outputs: StructuredOutputs | None = None
    guided_json: dict[str, Any] | str | bool | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    guided_whitespace_pattern: str | None = None
    guided_decoding_backend: str | None = None
    stop: str | list[str] | None = None
    priority: int = 0

    @field_validator("guided_decoding_backend")
    @classmethod
    def _known_backend(cls, value: str | None) -> str | None:
        """Which engine was to hold a grammar says nothing of its language; there is one here."""
        if value is not None and value.partition(":")[0] not in BACKENDS:
            raise ValueError(f"there are {', '.join(BACKENDS)}")
        return value

    @field_validator("stop")
    @classmethod
    def _few_stops(cls, value: str | list[str] | None) -> str | list[str] | None:
        stops = [value] if isinstance(value, str) else value or []
        if len(stops) > 16 or any(not 0 < len(one) <= 256 for one in stops):
            raise ValueError("16 texts of 1 to 256 characters at most")
        return value

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())


_OWN = ("messages", "tools", "add_generation_prompt")


def _own_variables(value: dict[str, Any]) -> dict[str, Any]:
    for name in _OWN:
        if name in value:
            raise ValueError(f"{name} is the server's to set")
    return value


TemplateVariables = Annotated[dict[str, Any], AfterValidator(_own_variables)]
"""Variables of the chat template, but for those that the request itself becomes."""

NO_EFFECT = ("user", "metadata", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "service_tier")
"""Parameters that say nothing of the answer; prompts that begin alike share their blocks without being asked to."""

UNSUPPORTED: dict[str, tuple[tuple[Any, ...], str]] = {
    "store": ((False,), "nothing is kept; send false, or leave it out"),
    "moderation": ((), "nothing is moderated"),
    "prompt_cache_options": ((), "prompts that begin alike share their blocks without being asked to"),
    "min_tokens": ((0,), "the model or its grammar says where a text ends"),
    "ignore_eos": ((False,), "the model or its grammar says where a text ends"),
    "stop_token_ids": (([],), "give texts in stop"),
    "best_of": ((1,), "ask for n answers"),
    "use_beam_search": ((False,), "answers are drawn"),
    "skip_special_tokens": ((True,), "special tokens are no text"),
    "spaces_between_special_tokens": ((True,), "special tokens are no text"),
    "truncate_prompt_tokens": ((), "send what is to be read"),
    "prompt_logprobs": ((), "only tokens of the answer have log-probabilities"),
}
