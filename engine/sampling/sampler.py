"""From a batch of logits to a token for each row.

The chain runs for all rows at once on the device of the logits; then the ids and the best score of each row come to the
host in one transfer.  Rows whose best score shows that they cannot be drawn from (NaN, nothing left, infinite) are rare
and are dealt with one by one after that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from engine.devices import upload
from engine.sampling import processors, race
from engine.sampling.chain import Chain, SamplerRow
from engine.sampling.coupling import Guess, couple
from engine.sampling.errors import EmptyRow, InvalidLogits
from engine.sampling.mask import Masks, best_allowed
from engine.sampling.outcome import GIVE_WAY, Draw, Fallback, HardRule, TokenLogprob
from engine.sampling.uniform import ACCEPT_LANE, DRAW_LANE, uniform


class Sampler:
    """Draws for a fixed set of rows; made anew, cheaply, when sequences join or leave the batch.

    Raises:
        SamplingError: a bias, ban or end token that the vocabulary does not have.
    """

    def __init__(self, rows: Sequence[SamplerRow], vocab_size: int, device: torch.device | str = "cpu") -> None:
        self.rows = tuple(rows)
        self.chain = Chain(rows, vocab_size, device)
        greedy = [row.sampling.is_greedy for row in rows]
        self._all_greedy = all(greedy)
        self._drawn = [index for index, flag in enumerate(greedy) if not flag]
        self._has_logprobs = any(row.sampling.logprobs is not None for row in rows)
        self._greedy = upload(greedy, self.chain.device)

    @torch.inference_mode()
    def sample(
        self,
        logits: Tensor,
        masks: Masks | None = None,
        constrained: Sequence[bool] | None = None,
        guesses: Sequence[Guess | None] | None = None,
    ) -> list[Draw]:
        """Draw the next token of each row; the caller commits those that it keeps.

        Args:
            logits: [batch, vocab] of the last position, any floating dtype; left alone.
            masks: uint32 [batch, words], see `apply_mask`, or rows that are on the device; `None` where no row has a
                constraint.
            constrained: which rows `masks` holds for; `None`: all.
            guesses: tokens drawn from other distributions, for which each row's draw is to come out as often as its own
                distribution lets it (`engine.sampling.coupling`); a greedy row has no use for one.

        Raises:
            InvalidLogits: NaN in a row.
            EmptyRow: nothing is left to draw in a row, and its `on_empty` is `"error"` or cannot help.
        """
        self._check_shape(logits)
        tokens, best, final = self._chosen(logits, masks, constrained, guesses)
        ids, peaks = torch.stack((tokens.double(), best.double())).tolist()
        sound = [index for index, peak in enumerate(peaks) if math.isfinite(peak)]
        logprobs = self._logprobs({index: int(ids[index]) for index in sound}, final)
        draws = [Draw(int(token), logprobs.get(index)) for index, token in enumerate(ids)]
        if len(sound) < len(draws):
            for index in sorted(set(range(len(draws))) - set(sound)):
                draws[index] = self._draw_unsound(index, logits, masks, constrained)
        return draws

    @torch.inference_mode()
    def probabilities(
        self, logits: Tensor, masks: Masks | None = None, constrained: Sequence[bool] | None = None
    ) -> Tensor:
        """The distributions that `sample` draws from, float32 [batch, vocab]; a greedy row has all mass on one token.

        Rows that need a fallback get the distribution under it.

        Raises:
            InvalidLogits, EmptyRow: as `sample`.
        """
        self._check_shape(logits)
        scores = self.chain.scores(logits, masks, constrained).clone()
        for index, peak in enumerate(scores.amax(-1).tolist()):
            if not math.isfinite(peak):
                scores[index] = self._sound_row(index, logits, masks, constrained).scores[0]
        one_hot = torch.zeros_like(scores).scatter(-1, processors.argmax(scores).unsqueeze(-1), 1.0)
        return torch.where(self._greedy.unsqueeze(-1), one_hot, self.chain.truncate(scores).softmax(-1))

    def commit(self, tokens: Sequence[int | None]) -> None:
        """Append one token to the history of each row (`None`: nothing); the next draw takes it into account."""
        self.chain.commit(tokens)

    def rollback(self, counts: Sequence[int]) -> None:
        """Take the last `counts` tokens of each row back that were committed."""
        self.chain.rollback(counts)

    def _chosen(
        self,
        logits: Tensor,
        masks: Masks | None,
        constrained: Sequence[bool] | None,
        guesses: Sequence[Guess | None] | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens int64 [batch], the best score of each row, and the logits [batch, vocab] that tokens are reported under."""
        if (
            self._all_greedy
            and not self._has_logprobs
            and isinstance(masks, np.ndarray)
            and logits.device.type == "cpu"
        ):
            scores = self.chain.scores(logits)
            return *best_allowed(scores, masks, constrained), scores
        scores = self.chain.scores(logits, masks, constrained)
        tokens, final = self._draw(scores, guesses)
        # Under greedy the score of the token drawn is the row's best, without another pass over the row.
        best = scores.gather(-1, tokens.unsqueeze(-1)).squeeze(-1) if self._all_greedy else scores.amax(-1)
        return tokens, best, final

    def _draw(self, scores: Tensor, guesses: Sequence[Guess | None] | None = None) -> tuple[Tensor, Tensor]:
        """Tokens int64 [batch], and the logits [batch, vocab] of the distributions that they are reported under."""
        if self._all_greedy:
            return processors.argmax(scores), scores
        device, everything = self.chain.device, len(self._drawn) == len(self.rows)
        # Only rows that are drawn for go through truncation, softmax and sum.
        rows = None if everything else upload(self._drawn, device)
        final = self.chain.truncate(scores if rows is None else scores[rows], rows)
        probs = final.softmax(-1)
        uniforms = [uniform(self.rows[index].seed, self.rows[index].step) for index in self._drawn]
        tokens = race.draw(probs, upload(uniforms, device, torch.float64))
        if guesses is not None:
            tokens = self._agree(tokens, probs, [guesses[index] for index in self._drawn])
        if rows is None:
            return tokens, final
        tokens = processors.argmax(scores).index_copy(0, rows, tokens)
        return tokens, scores.index_copy(0, rows, final) if self._has_logprobs else scores

    def _agree(self, tokens: Tensor, probs: Tensor, guesses: Sequence[Guess | None]) -> Tensor:
        """`tokens` of the rows that are drawn for, drawn anew in those that have a guess."""
        guessed = [(index, guess) for index, guess in enumerate(guesses) if guess is not None]
        if not guessed:
            return tokens
        device = self.chain.device
        indices = [index for index, _ in guessed]
        rows = [self.rows[self._drawn[index]] for index in indices]
        lanes = [[uniform(row.seed, row.step, lane) for row in rows] for lane in (ACCEPT_LANE, DRAW_LANE)]
        accept, draw = upload(lanes, device, torch.float64)
        places = upload(indices, device)
        ids = upload([guess.token_id for _, guess in guessed], device)
        other = torch.stack([guess.probs for _, guess in guessed]).to(device)
        return tokens.index_copy(0, places, couple(probs[places], other, ids, accept, draw))

    def _draw_unsound(
        self, index: int, logits: Tensor, masks: Masks | None, constrained: Sequence[bool] | None
    ) -> Draw:
        """Draw for a row that `sample` could not draw for as it stood."""
        sound = self._sound_row(index, logits, masks, constrained)
        alone = Sampler(self.rows[index : index + 1], self.chain.vocab_size, self.chain.device)
        tokens, final = alone._draw(sound.scores)
        token = int(tokens[0])
        return Draw(token, alone._logprobs({0: token}, final).get(0), sound.fallbacks)

    def _sound_row(
        self, index: int, logits: Tensor, masks: Masks | None, constrained: Sequence[bool] | None
    ) -> _SoundRow:
        """Scores of a row with a finite maximum, and which rules it took to give up for that.

        Raises:
            InvalidLogits, EmptyRow: as `sample`.
        """
        row, logits = self.rows[index], logits[index : index + 1]
        if bool(logits.isnan().any()):
            raise InvalidLogits(row.step, index)
        held = masks is not None and (constrained is None or bool(constrained[index]))
        mask = masks[index : index + 1] if masks is not None and held else None
        chain = Chain([row], self.chain.vocab_size, self.chain.device)
        sound = _give_way(chain, logits, mask)
        if sound is not None:
            return sound
        speechless = bool((logits == -torch.inf).all())
        cause = "constraint" if held and not speechless else "logits"
        policy = row.sampling.on_empty
        if policy == "eos" and row.eos_token_ids:
            scores = torch.full_like(logits, -torch.inf, dtype=torch.float32)
            scores[0, row.eos_token_ids[0]] = 0.0
            return _SoundRow(scores, (Fallback(row.step, cause, "eos"),))
        if policy == "relax" and held:
            sound = _give_way(chain, logits, None)
            if sound is not None:
                return _SoundRow(sound.scores, (Fallback(row.step, cause, "relax"), *sound.fallbacks))
        rules = [
            *(rule for rule, tokens in row.forbidden().items() if tokens),
            *(["constraint"] if held else []),
            *(["logits"] if speechless else []),
        ]
        raise EmptyRow(row.step, index, rules, _remedy(policy, speechless))

    def _logprobs(self, tokens: Mapping[int, int], final: Tensor) -> dict[int, TokenLogprob]:
        """Log-probabilities of the tokens drawn for rows, as the rows' requests ask for them; `final` is [batch, vocab]."""
        found: dict[int, TokenLogprob] = {}
        alike: dict[int, list[int]] = {}
        for index in tokens if self._has_logprobs else ():
            count = self.rows[index].sampling.logprobs
            if count is not None:
                alike.setdefault(count, []).append(index)
        # Rows that ask for as many go together: among equals, which come first depends on how many are asked for.
        for count, indices in alike.items():
            log_probs = final[indices].log_softmax(-1)
            drawn = torch.tensor([tokens[index] for index in indices], device=final.device).unsqueeze(-1)
            own = log_probs.gather(-1, drawn).squeeze(-1).tolist()
            values, ids = (each.tolist() for each in log_probs.topk(min(count, log_probs.shape[-1])))
            for at, index in enumerate(indices):
                top = zip(ids[at], values[at], strict=True)
                found[index] = TokenLogprob(tokens[index], own[at], tuple((i, v) for i, v in top if v > -math.inf))
        return found

    def _check_shape(self, logits: Tensor) -> None:
        expected = (len(self.rows), self.chain.vocab_size)
        if tuple(logits.shape) != expected:
            raise ValueError(
                f"logits are {list(logits.shape)}, this sampler draws from {list(expected)} [batch, vocab]"
            )


class _SoundRow(NamedTuple):
    scores: Tensor
    fallbacks: tuple[Fallback, ...]


def _give_way(chain: Chain, logits: Tensor, mask: Masks | None) -> _SoundRow | None:
    """Scores of a one-row chain with as few hard rules dropped, in their order, as it takes; `None` if none suffice."""
    row, dropped = chain.rows[0], list[HardRule]()
    possible = chain.scores(logits, mask, dropped=GIVE_WAY)[0] > -torch.inf
    # A rule that forbids nothing of what could be drawn without it stands in nobody's way.
    waiting = [rule for rule, tokens in row.forbidden().items() if bool(possible[list(tokens)].any())]
    while True:
        scores = chain.scores(logits, mask, dropped=dropped)
        if bool(scores.amax() > -torch.inf):
            given = tuple(Fallback(row.step, rule, "give_way") for rule in dropped)
            return _SoundRow(_with_finite_peak(scores), given)
        if not waiting:
            return None
        dropped.append(waiting.pop(0))


def _with_finite_peak(scores: Tensor) -> Tensor:
    """A row with `+inf` in it as the limit that it stands for: those tokens alike, the rest not at all."""
    infinite = scores == torch.inf
    return torch.where(infinite, 0.0, -torch.inf) if bool(infinite.any()) else scores


def _remedy(policy: str, speechless: bool) -> str:
    if speechless:
        return "the model gave every token -inf; look at its weights and dtype" + (
            ", or set Sampling(on_empty='eos') to end the text here" if policy != "eos" else ""
        )
    if policy == "eos":
        return "on_empty='eos' needs an end token, and none is known"
    return "set Sampling(on_empty='eos') to end the text here, or 'relax' to drop the constraint for the step"
