from __future__ import annotations

import pytest

from engine import Sampling, generate
from engine.errors import SpeculationError
from engine.metrics import Metrics
from engine.speculation import DraftModel, Speculation
from engine.speculation.draft import FORCED, Drafted
from engine.speculation.lookahead import MOST_GUESSED, Acceptance, Adaptive, Constant, Costs, Heuristic, NominalCosts
from engine.speculation.names import NAMES, check_name
from tests.engine.speculation.toys import VOCAB, Guesser, ToyModel


def _costs(**passes: float) -> Costs:
    """Costs that have been measured often enough to be believed."""
    costs = Costs()
    for _ in range(60):
        for rows, each in passes.items():
            costs.record(int(rows.removeprefix("of")), each)
    return costs


class TestCosts:
    def test_without_measurements_they_grow_with_the_rows(self) -> None:
        assert Costs().of(1) == 1.0
        assert Costs().of(11) == pytest.approx(1.8)

    def test_what_was_measured_is_learned_and_between_and_beyond_it_is_estimated(self) -> None:
        costs = _costs(of1=0.04, of4=0.064, of8=0.16)
        assert [costs.of(rows) for rows in (1, 2, 4, 6, 8)] == pytest.approx([1.0, 1.2, 1.6, 2.8, 4.0], rel=0.12)
        assert costs.of(16) == pytest.approx(4.0 * 2.2 / 1.56, rel=0.12)
        assert costs.seconds == pytest.approx(0.04, rel=0.12)

    def test_more_rows_never_take_less(self) -> None:
        costs = _costs(of1=2.0, of4=1.0, of8=3.0)
        assert costs.of(4) == 1.0
        assert [costs.of(rows) for rows in range(1, 40)] == sorted(costs.of(rows) for rows in range(1, 40))

    def test_one_slow_pass_is_not_believed(self) -> None:
        costs = _costs(of1=1.0, of4=1.3)
        costs.record(4, 90.0)
        assert costs.of(4) < 1.5
        fresh = Costs()
        fresh.record(1, 1.0)
        fresh.record(6, 90.0)
        assert fresh.of(6) < 1.4 * Costs.nominal(6)

    def test_a_machine_that_is_busy_for_a_while_changes_nothing(self) -> None:
        costs = _costs(of1=1.0, of4=1.3)
        for _ in range(20):
            costs.record(1, 5.0)
            costs.record(4, 6.5)
        assert costs.of(4) == pytest.approx(1.3, rel=0.15)
        assert costs.seconds == pytest.approx(5.0, rel=0.1)

    def test_nominal_ones_learn_nothing(self) -> None:
        costs = NominalCosts()
        costs.record(1, 50.0)
        assert costs.of(1) == 1.0


def _guesses(count: int, source: str = "m") -> list[Drafted]:
    return [Drafted(3, source)] * count


class TestAdaptive:
    def test_good_guesses_lengthen_the_block_and_bad_ones_end_speculation(self) -> None:
        pace = Adaptive(_costs(of1=1.0, of2=1.05, of16=1.7), 0.1, "m")
        first = pace.most(1)
        for _ in range(30):
            pace.observe(_guesses(pace.most(1)), pace.most(1), pace.most(1), 0.1 * pace.most(1))
        assert pace.most(1) > first > 0
        for _ in range(30):
            pace.observe(_guesses(max(1, pace.most(1))), 0, 4, 0.4)
        assert pace.most(1) == 0

    def test_what_was_given_up_is_tried_again_after_a_while(self) -> None:
        pace = Adaptive(_costs(of1=1.0, of16=1.7), 0.2, "m")
        for _ in range(12):
            pace.observe(_guesses(1), 0, 1, 0.2)
        pauses, waited = [], 0
        while len(pauses) < 3:
            if pace.most(1) == 0:
                waited += 1
                assert waited < 500
            else:
                pauses.append(waited)
                waited = 0
                pace.observe(_guesses(1), 0, 1, 0.2)
        assert pauses[0] > 20 and pauses[1] > 5
        share = len(pauses) / sum(pauses)
        assert share < 0.1

    def test_a_proposer_as_slow_as_the_target_is_never_asked(self) -> None:
        assert Adaptive(Costs(), 1.0, "m").most(1) == 0

    def test_the_measured_time_of_a_guess_counts(self) -> None:
        pace = Adaptive(_costs(of1=1.0), 0.05, "m")
        assert pace.most(1) > 0
        for _ in range(20):
            pace.observe(_guesses(2), 2, 2, 6.0)
        assert pace.most(1) == 0

    def test_look_ups_are_always_asked_and_cut_where_they_do_not_pay(self) -> None:
        pace = Adaptive(_costs(of1=1.0, of2=1.5, of3=2.0, of16=9.0), 0.0, "ngram")
        assert pace.most(1) == MOST_GUESSED
        for _ in range(20):
            pace.observe(_guesses(3, "ngram1"), 0, 3, 0.0)
        draft = [*_guesses(5, FORCED), *_guesses(5, "ngram1")]
        for _ in range(30):
            pace.observe(_guesses(5, FORCED), 5, 0, 0.0)
        assert pace.keep(_guesses(5, "ngram1"), 1) == 0
        assert pace.keep(draft, 1) == 5

    def test_acceptance_is_counted_by_source_and_place(self) -> None:
        pace = Adaptive(Costs(), 0.0, "ngram")
        for _ in range(25):
            pace.observe(_guesses(6, "ngram0"), 1, 6, 0.0)
        rates = {kind: one.rate for kind, one in pace.acceptance.items()}
        assert rates["ngram0.0"] > 0.95 and rates["ngram0.1"] < 0.05
        assert pace.keep(_guesses(6, "ngram0"), 1) == 1

    def test_in_a_full_batch_rows_cost_more_and_blocks_are_shorter(self) -> None:
        costs = _costs(of1=1.0, of8=1.2, of16=2.0, of32=4.0, of64=8.0, of128=16.0)
        pace = Adaptive(costs, 0.0, "ngram")
        draft = _guesses(8)
        assert pace.keep(draft, 1) > pace.keep(draft, 16)

    def test_hope_comes_back(self) -> None:
        acceptance = Acceptance(0.1)
        for _ in range(600):
            acceptance.forget()
        assert acceptance.rate == pytest.approx(Acceptance.HOPE, abs=0.01)

    def test_each_try_that_fails_is_waited_for_twice_as_long(self) -> None:
        def waits(acceptance: Acceptance) -> int:
            count = 0
            while acceptance.rate < 0.5:
                acceptance.forget()
                count += 1
            return count

        acceptance, pauses = Acceptance(0.3), []
        for _ in range(6):
            pauses.append(waits(acceptance))
            acceptance.observe(False)
            acceptance.rate = 0.3
        assert [round(pause / pauses[0]) for pause in pauses] == [1, 2, 4, 4, 4, 4]
        acceptance.observe(True)
        acceptance.rate = 0.3
        assert waits(acceptance) == pauses[0]


def test_the_heuristic_grows_by_two_and_shrinks_by_one() -> None:
    pace = Heuristic()
    assert pace.most(1) == 4
    pace.observe(_guesses(4), 4, 4, 0.0)
    assert pace.most(1) == 6
    for _ in range(9):
        pace.observe(_guesses(4), 3, 4, 0.0)
    assert pace.most(1) == 1
    pace.observe(_guesses(4, FORCED), 4, 0, 0.0)
    assert pace.most(1) == 1
    for _ in range(20):
        pace.observe(_guesses(1), 1, 1, 0.0)
    assert pace.most(1) == MOST_GUESSED
    assert Constant(3).keep(_guesses(9), 1) == 9


def test_a_request_that_samples_with_drawn_guesses_does_not_look_at_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(tick: float) -> list[int]:
        now = [0.0]

        def clock() -> float:
            now[0] += tick * (1 + now[0] % 3)
            return now[0]

        for module in ("engine.metrics", "engine.generation", "engine.speculation.speculation"):
            monkeypatch.setattr(f"{module}.perf_counter", clock)
        speculation = Speculation(DraftModel(ToyModel(2), VOCAB, 0.1))
        for _ in range(3):
            found = generate(
                ToyModel(),
                [5, 6],
                sampling=Sampling(seed=4),
                max_new_tokens=40,
                eos_token_ids=[],
                speculation=speculation,
            ).result()
            assert found.metrics.drafted > 0
        return found.token_ids

    assert run(0.001) == run(7.0)


def test_speculation_that_does_not_pay_is_off_and_on_record() -> None:
    wrong = Guesser(lambda tokens, most: [(tokens[-1] + 1) % 11] * most)
    wrong.cost, wrong.draws = 0.3, True  # so that costs are nominal
    metrics = generate(
        ToyModel(sharpness=9.0), [5, 6], sampling=Sampling(seed=1), max_new_tokens=120, eos_token_ids=[],
        speculation=Speculation(wrong),
    ).result().metrics  # fmt: skip
    assert metrics.drafted > 0
    assert metrics.switched_off > 80
    assert metrics.fallback_rate > 0.7
    assert metrics.lookaheads.count(0) == metrics.switched_off
    assert sum(metrics.lookaheads) == metrics.drafted


def test_derived_figures_follow_from_the_counts() -> None:
    metrics = Metrics(
        output_tokens=20, target_forwards=8, drafted=18, accepted=12, verifications=6, lookaheads=[0, 3, 3, 0],
        itl_s=[0.01] * 18 + [0.5],
    )  # fmt: skip
    assert metrics.accepted_per_verification == 2.0
    assert metrics.wasted == 6
    assert metrics.forwards_per_token == 0.4
    assert metrics.fallback_rate == 0.5
    assert metrics.itl_p95_s == 0.5
    assert Metrics(itl_s=[0.1] * 19 + [9.0]).itl_p95_s == 0.1
    empty = Metrics()
    assert (empty.accepted_per_verification, empty.forwards_per_token, empty.fallback_rate, empty.itl_p95_s) == (
        0,
        0,
        0,
        0,
    )


@pytest.mark.parametrize("name", ["auto", "none", *NAMES, "forced+suffix+ngram+draft", "ngram+universal"])
def test_names_of_proposers_are_known(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["", "forced+", "eagle", "ngram+none", "ngram+ngram", "draft+forced", 3, None])
def test_other_names_are_refused(name: object) -> None:
    with pytest.raises(SpeculationError, match="proposer="):
        check_name(name)
