"""The front door: a model with its tokenizer, and the calls that generate under a constraint."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar, overload

from constrained.answering import Answering
from constrained.batch import BatchProgress, generate_batch
from constrained.beams import generate_beams
from constrained.kernel_notice import announce_compilation
from constrained.limits import DEFAULT_LIMITS, Limits
from constrained.options import MAX_WAITING, EngineOptions
from constrained.preparing import prepare
from constrained.prompts import Message, Prompt, with_schema
from constrained.requests import TextRequest
from constrained.results import Generation
from constrained.schema_input import partial_reader, read_schema
from constrained.speculations import Speculations
from constrained.streaming import BytesDecoding, Decoding, TextStream
from constrained.template_messages import encoded_chat
from constrained.vocabulary import Vocabulary
from engine.batching import EngineLoop
from engine.batching.scheduler import Admission
from engine.errors import TextError
from engine.generation import CancelToken, generate
from engine.loading import load_model
from engine.loading.default_model import Progress
from engine.model import Model
from engine.sampling import Sampling
from engine.speculation.proposer import Proposer
from engine.text import Text

T = TypeVar("T")


class LLM(Answering):
    """A model on a device, with its tokenizer; loaded when it is made.

    Args:
        model: a `.gguf` file, a folder of safetensors, a hub id (`owner/name`), an `engine.Model`, or `None` for the
            default model, which is fetched once (98 MB) and kept in the user's cache folder.
        device: `"auto"` (CUDA where there is one), `"cpu"`, `"cuda"`, `"cuda:1"`.
        dtype: `"auto"` (on a CPU the first of int4, int8 and bfloat16 that passes the quality gate, see `engine.quality`),
            `"float32"`, `"bfloat16"`, `"float16"`, or `"int8"` and `"int4"`: packed weights for decoding on a CPU.
        draft_model: a smaller model, as `model`, for the proposers `"draft"` (the same tokens) and `"universal"` (other ones).
        cache, proposer, lookahead, kv_memory, max_sequences, max_waiting, admission: see
            `constrained.options.EngineOptions`; the first three may be given per call too.
        context_length: most positions of a sequence, `None` for the model's own; see `engine.load_model`, which also says which
            models can be stretched past theirs.
        batch_invariant: a request gets the same text alone and in any batch (on a CPU, in bfloat16 or packed); `False` is faster
            for more than eight sequences at a time with packed weights; see `engine.load_model`.
        limits: bounds of what grammars may cost; see `constrained.Limits`.
        progress: called with bytes done and bytes expected while a model is fetched.

    Raises:
        engine.errors.ModelError: the model cannot be found, fetched, read or run; one line with the remedy.
        UnsupportedFeature, ValueError: an option that is not available, or not accepted.

    A prompt is a text, which becomes one user message, or a list of `{"role": ..., "content": ...}` messages; either
    goes through the model's chat template where it has one.  A list of token ids is taken as it is.  Without
    `sampling=`, decoding is greedy.
    """

    def __init__(
        self,
        model: str | Path | Model | None = None,
        *,
        device: str = "auto",
        dtype: str = "auto",
        cache: str = "auto",
        proposer: str | Proposer = "auto",
        draft_model: str | Path | Model | None = None,
        lookahead: str | int = "adaptive",
        kv_memory: int | str | None = None,
        max_sequences: int = 64,
        max_waiting: int = MAX_WAITING,
        admission: Admission = "promised",
        context_length: int | None = None,
        batch_invariant: bool = True,
        limits: Limits = DEFAULT_LIMITS,
        progress: Progress | None = None,
    ) -> None:
        announce_compilation()
        self.limits = limits
        self.options = EngineOptions(cache, proposer, lookahead, kv_memory, max_sequences, max_waiting, admission)
        self._engine: EngineLoop | None = None
        self._engine_lock = Lock()
        if isinstance(model, Model):
            if device != "auto" or dtype != "auto" or context_length is not None or not batch_invariant:
                raise ValueError(
                    "the model is loaded already, so device, dtype, context_length and batch_invariant are settled; leave "
                    "them out"
                )
            self.model = model
        else:
            self.model = load_model(
                model, device, dtype, context_length=context_length, batch_invariant=batch_invariant, progress=progress
            )
        if isinstance(draft_model, str | Path):
            draft_model = load_model(draft_model, device, dtype, progress=progress)
        self.draft_model = draft_model
        self._speculations = Speculations(self.model, draft_model)
        self._speculations.of(self.options)  # what does not fit the model is refused now

    @property
    def text(self) -> Text:
        """The tokenizer and chat template.

        Raises:
            TextError: the model came without.
        """
        if self.model.text is None:
            raise TextError("the model came without a tokenizer; put its tokenizer.json beside the weights")
        return self.model.text

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The bytes of the model's tokens, as long as its logits."""
        config = self.model.config
        ends = self.text.eos_token_ids or config.eos_token_ids
        return Vocabulary.from_huggingface(self.text.tokenizer, logits_size=config.vocab_size, eos_token_ids=ends)

    @overload
    def generate_json(self, prompt: Prompt, schema: type[T], **options: Any) -> T: ...
    @overload
    def generate_json(self, prompt: Prompt, schema: Any, **options: Any) -> Any: ...
    def generate_json(self, prompt: Prompt, schema: Any, **options: Any) -> Any:
        """One JSON value that fits `schema`, checked.

        Args:
            schema: a Pydantic model or any type that a `TypeAdapter` takes: an instance comes back; or a JSON Schema as
                dict, bool, JSON string or `JsonSchema`: plain Python values come back.
            options: those of `generate`: `max_tokens`, `sampling`, `cache`, `proposer`, `lookahead`.

        Raises:
            GrammarError: a schema that is malformed, not supported, or that nothing satisfies.
            BudgetError: no instance fits into `max_tokens` tokens; raised before the first one.
            ResultError: the type's own validators refuse what its schema allows.
            ContextError, SamplingError, EmptyRow: as in `generate`.
        """
        return self._json_stream(prompt, schema, options).result().parsed

    def stream_json(self, prompt: Prompt, schema: Any, **options: Any) -> TextStream:
        """The same as it is generated; `.result().parsed` is the value."""
        return self._json_stream(prompt, schema, options)

    def generate(
        self,
        prompt: Prompt,
        constraint: Any = None,
        *,
        max_tokens: int = 256,
        sampling: Sampling | None = None,
        chat: bool = True,
        cancel: CancelToken | None = None,
        cache: str | None = None,
        proposer: str | Proposer | None = None,
        lookahead: str | int | None = None,
    ) -> Generation:
        """Text after a prompt, under a constraint where one is given.

        Args:
            constraint: a grammar (`JsonSchema`, `Regex`, `Choice`, ...), a compiled `Constraint`, or whatever
                `generate_json` takes as `schema`; `None` leaves the text free.
            max_tokens: most tokens of the output.  A constrained text is whole within them.
            sampling: how tokens are drawn; `None` is greedy.
            chat: false takes a text prompt as it is, without the chat template.
            cancel: looked at before each token (a `threading.Event`, say); once set, the text ends as `"cancelled"`.
            cache, proposer, lookahead: instead of the model's; see `EngineOptions`.

        Raises:
            GrammarError, BudgetError: as in `generate_json`.
            ContextError: prompt and `max_tokens` do not fit into the context.
            SamplingError: a token id outside the vocabulary.
            EmptyRow, InvalidLogits: no token can be drawn; see `Sampling.on_empty`.
        """
        return self.stream(
            prompt, constraint, max_tokens=max_tokens, sampling=sampling, chat=chat, cancel=cancel,
            cache=cache, proposer=proposer, lookahead=lookahead,
        ).result()  # fmt: skip

    def stream(
        self,
        prompt: Prompt,
        constraint: Any = None,
        *,
        max_tokens: int = 256,
        sampling: Sampling | None = None,
        chat: bool = True,
        cancel: CancelToken | None = None,
        cache: str | None = None,
        proposer: str | Proposer | None = None,
        lookahead: str | int | None = None,
        partial: bool = False,
    ) -> TextStream:
        """The events of `generate`, token by token; everything that can be refused is refused before the first.

        Args:
            partial: whether each event has the value so far, under a schema: members and items as they begin, strings as they
                grow, numbers when they are whole; a Pydantic model without the fields that have not come.

        Raises:
            ValueError: `partial` without a schema.
            Otherwise as `generate`.
        """
        options = self.options.for_call(cache, proposer, lookahead)
        reader = partial_reader(constraint) if partial else None
        request = self.prepare(
            prompt, constraint, max_tokens=max_tokens, sampling=sampling, chat=chat, cancel=cancel,
            proposer=proposer, lookahead=lookahead,
        )  # fmt: skip
        options.check_memory(self.model, len(request.ids) + max_tokens)
        tokens = generate(self.model, request.ids, **request.arguments, cache=options.cache)
        return TextStream(tokens, request.decoding, request.parse, reader)

    def prepare(
        self,
        prompt: Prompt,
        constraint: Any = None,
        *,
        max_tokens: int = 256,
        sampling: Sampling | None = None,
        chat: bool = True,
        cancel: CancelToken | None = None,
        proposer: str | Proposer | None = None,
        lookahead: str | int | None = None,
    ) -> TextRequest:
        """What `stream` does before the engine begins; for one generation, alone or in `engine`.

        Raises:
            As `generate`, but for what only the engine can refuse.
        """
        return prepare(
            self, prompt, constraint, max_tokens=max_tokens, sampling=sampling, chat=chat, cancel=cancel,
            speculation=self._speculations.of(self.options.for_call(None, proposer, lookahead)),
        )  # fmt: skip

    def decoding(self, *, constrained: bool) -> Decoding:
        """What turns the tokens of one output into text."""
        return BytesDecoding(self.vocabulary.token_bytes) if constrained else self.text.detokenizer()

    @property
    def engine(self) -> EngineLoop:
        """The batch engine that `generate_batch`, `AsyncLLM` and the server share, made when it is first asked for.

        It has the memory that `kv_memory` says, by default that of `engine.batching.room.blocks_for`, and runs at most
        `max_sequences` sequences at a time.

        Raises:
            EngineError: `kv_memory` is less than one block of keys and values.
            ValueError: a `cache` other than `"auto"` and `"paged"`, which is the one that batches have.
        """
        self.options.check_batching()
        with self._engine_lock:
            if self._engine is None:
                self._engine = self.options.make_loop(self.model)
            return self._engine

    def generate_batch(
        self,
        prompts: Sequence[Prompt],
        constraint: Any = None,
        *,
        max_tokens: int = 256,
        sampling: Sampling | Sequence[Sampling | None] | None = None,
        chat: bool = True,
        cancel: CancelToken | None = None,
        cache: str | None = None,
        proposer: str | Proposer | None = None,
        lookahead: str | int | None = None,
        progress: bool | BatchProgress = False,
    ) -> list[Generation]:
        """One generation for each prompt, in their order, decoded together by continuous batching.

        Args:
            constraint: one for all, or a list with one for each prompt.
            max_tokens, chat, cancel, cache, proposer, lookahead: those of `generate`, for all.
            sampling: one for all, or a list.  With a seed, each prompt gets the text that it would get alone, as far as
                the model's numbers are the same: in bfloat16 and with packed weights, products of more rows round otherwise, and
                a draw that is close may fall otherwise.
            progress: true draws a bar on standard error where that is a terminal; a function is called with the number of
                finished prompts and that of all.

        Raises:
            BatchError: some failed while they were generated; its `results` hold the others.
            Otherwise as `generate`, before anything is generated.
        """
        self.options.for_call(cache, proposer, lookahead).check_batching()
        return generate_batch(
            self,
            prompts,
            constraint,
            max_tokens=max_tokens,
            sampling=sampling,
            chat=chat,
            cancel=cancel,
            proposer=proposer,
            lookahead=lookahead,
            progress=progress,
        )

    def beam_search(
        self,
        prompt: Prompt,
        constraint: Any = None,
        *,
        beams: int = 4,
        length_penalty: float = 1.0,
        max_tokens: int = 256,
        sampling: Sampling | None = None,
        chat: bool = True,
        cancel: CancelToken | None = None,
    ) -> list[Generation]:
        """The most likely texts that a search of so many beams finds, best first, no two alike; see `engine.beams`.

        Args:
            beams: texts that are followed at a time, 1 to 64, and handed out at most.
            length_penalty: 0: the likeliest text; above, longer ones are favoured.  `Generation.score` is what they are
                ordered by.
            sampling: its bias, penalties, bans and n-gram rule; the rest is refused, since nothing is drawn.
            constraint, max_tokens, chat, cancel: as in `generate`.

        Raises:
            Otherwise as `generate`.
        """
        return generate_beams(
            self, prompt, constraint, beams=beams, length_penalty=length_penalty, max_tokens=max_tokens, sampling=sampling,
            chat=chat, cancel=cancel,
        )  # fmt: skip

    def encode_messages(self, messages: Sequence[Message], **variables: Any) -> list[int]:
        """Token ids of a conversation in the model's chat template; `variables` are the template's own."""
        text = self.text
        if "default" in text.chat_templates:
            return encoded_chat(text, messages, None, variables)
        # A base model has no template; it continues a text.
        return text.encode("\n\n".join(str(message.get("content") or "") for message in messages) + "\n")

    def _json_stream(self, prompt: Prompt, schema: Any, options: dict[str, Any]) -> TextStream:
        source = read_schema(schema)
        return self.stream(with_schema(prompt, source.description), schema, **options)
