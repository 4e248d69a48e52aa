"""The draws of a step: a token for every request that has logits, and what becomes of it."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import torch
from torch import Tensor

from engine.batching.request import Booked, Request
from engine.constraint import Row
from engine.sampling import Draw, EmptyRow, InvalidLogits
from engine.sampling.sampler import Sampler
from engine.sequence import SequenceState, step_masks


class Drawing:
    """Draws for the requests of one engine, and lets their sequences move; an error ends one request and no other."""

    def __init__(self, vocab_size: int, device: torch.device) -> None:
        self._vocab_size, self._device = vocab_size, device
        self._sampler: Sampler | None = None

    def draw(self, requests: Sequence[Request], logits: Tensor | None = None) -> list[Request]:
        """A token for each of the requests, whose blocks have logits for one: `logits` [requests, vocab].

        Returns:
            Those whose masks are wanted before the next forward pass.
        """
        with Booked(requests, "sample"):
            sampler = self._sampler_of(requests)
            draws = self._draws(requests, sampler, logits)
        tokens = [self._accept(request, draw) for request, draw in zip(requests, draws, strict=True)]
        sampler.commit(tokens)
        wanted = []
        for request, token in zip(requests, tokens, strict=True):
            if token is None:
                request.block.close()
                continue
            if self._wants_mask(request, request.block.take(token)):
                wanted.append(request)
            request.times.append(perf_counter())
        return wanted

    def _draws(
        self, requests: Sequence[Request], sampler: Sampler, logits: Tensor | None
    ) -> Sequence[Draw | Exception]:
        known = [_dictated(request.sequence) for request in requests]
        dictated = [draw for draw in known if draw is not None]
        if len(dictated) == len(known):
            return dictated
        if logits is None:
            logits = torch.cat([request.block.logits for request in requests])
        masks = step_masks([request.sequence for request in requests], logits.device)
        drawn: Sequence[Draw | Exception]
        try:
            drawn = sampler.sample(logits, *masks, guesses=[request.block.guess for request in requests])
        except (EmptyRow, InvalidLogits):
            drawn = [self._draw_alone(request) for request in requests]
        return [other if draw is None else draw for draw, other in zip(known, drawn, strict=True)]

    def _sampler_of(self, requests: Sequence[Request]) -> Sampler:
        """The sampler of these rows, made anew where they are not those of the last step."""
        rows = tuple(request.sequence.row for request in requests)
        if self._sampler is None or self._sampler.rows != rows:
            self._sampler = Sampler(rows, self._vocab_size, self._device)
        return self._sampler

    def sampler_alone(self, sequence: SequenceState) -> Sampler:
        return Sampler([sequence.row], self._vocab_size, self._device)

    def _draw_alone(self, request: Request) -> Draw | Exception:
        """A row that cannot be drawn from must not end the others."""
        sequence, block = request.sequence, request.block
        sampler = self.sampler_alone(sequence)
        try:
            masks = step_masks([sequence], block.logits.device)
            return sampler.sample(block.logits, *masks, guesses=[block.guess])[0]
        except (EmptyRow, InvalidLogits) as error:
            return error

    def _accept(self, request: Request, draw: Draw | Exception) -> int | None:
        """The token that goes on the request's output, if any; an error ends the request and no other."""
        if isinstance(draw, Exception):
            request.error = draw
            return None
        try:
            with Booked([request], "mask"):
                return draw.token_id if request.sequence.accept(draw) else None
        except Exception as error:  # a constraint's own
            request.error = error
            return None

    def _wants_mask(self, request: Request, mask: Row | None) -> bool:
        """Whether a request's mask is wanted before the next forward pass; one that has it, or needs none, is settled."""
        sequence = request.sequence
        try:
            with Booked([request], "mask"):
                if mask is not None or sequence.constraint is None:
                    sequence.settle(mask)
                    return False
                request.settled = False
                # Drafts begin with the mask, and it says whether a text that may end does.
                return request.speculator is not None or sequence.may_end
        except Exception as error:  # a constraint's or a stop condition's own
            request.error = error
            return False


def _dictated(sequence: SequenceState) -> Draw | Exception | None:
    try:
        return sequence.dictated()
    except Exception as error:  # the constraint's own; it ends this sequence and no other
        return error
