"""One suite over every registered metric. A metric that is not listed in EXAMPLES fails the build."""

import math
import pickle
import random
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest

from auepora_eval import MetricResult, evaluate, evaluate_stream, metric
from auepora_eval.core.batch import Batch
from auepora_eval.core.metric_hooks import base_name, worst_in, worst_varies
from auepora_eval.core.registry import Spec, metric_info, metric_infos, spec_of, use_resources
from helpers.metric_examples import EXAMPLES, RESOURCES, about, asks_a_model, built, made_data, model_names, spec_params
from helpers.tiny_models import made


@pytest.fixture(autouse=True)
def models_of(request: pytest.FixtureRequest) -> None:
    """Write the tiny models that a spec names."""
    spec = request.node.callspec.params.get("spec") if hasattr(request.node, "callspec") else None
    for name in model_names(spec):
        made(name)


@pytest.fixture(autouse=True)
def resources() -> Iterator[None]:
    """What the specs above refer to."""
    with use_resources(RESOURCES):
        yield


NEEDS_SEVERAL_ANSWERS = {"answer_agreement"}
"""Metrics without a value for one answer to each sample; ``test_repeats.py`` is about them."""


def test_every_registered_metric_has_an_example() -> None:
    assert set(EXAMPLES) == set(metric_infos())
    for name, specs in EXAMPLES.items():
        if name in NEEDS_SEVERAL_ANSWERS:
            continue
        assert {metric_info(metric(s).name).name for s in specs} == {name}


class Checks:
    """What holds for every metric. Results that several checks need are computed once."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.results: dict[int, MetricResult] = {}

    def result(self, seed: int = 0) -> MetricResult:
        """The result on generated data; not to be changed."""
        if seed not in self.results:
            (self.results[seed],) = evaluate(*made_data(seed), [self.spec])
        return self.results[seed]

    def check_every_metric_takes_a_name(self) -> None:
        one = built(self.spec)
        kind: Any = type(one)
        named = kind(**{f.name: getattr(one, f.name) for f in fields(kind) if f.init}, name="mine")
        assert (named.name, base_name(named)) == ("mine", base_name(one))

    def check_scores_lie_within_the_declared_range(self) -> None:
        one = built(self.spec)
        low, high = one.range
        for seed in range(3):
            result = self.result(seed)
            for score in result.scores or ():
                assert score is None or low - 1e-12 <= score <= high + 1e-12
            assert not result.defined or low - 1e-12 <= result.value <= high + 1e-12

    def check_evaluation_is_deterministic_and_keeps_its_input(self) -> None:
        rows, outs = made_data()
        before = pickle.dumps((rows, outs))
        (again,) = evaluate(rows, outs, [self.spec])
        assert again == self.result()
        assert pickle.dumps((rows, outs)) == before

    def check_batch_size_does_not_change_the_result(self) -> None:
        rows, outs = made_data()
        (few,) = evaluate(rows[:16], outs[:16], [self.spec])
        for count, size, whole in ((len(rows), 7, self.result()), (16, 1, few)):
            (some,) = evaluate(rows[:count], outs[:count], [self.spec], batch_size=size)
            if asks_a_model(self.spec):
                assert (list(some.scores or ()), some.outcomes) == (about(whole.scores), whole.outcomes)
            else:
                assert some == whole, f"batch_size={size}"

    def check_sample_order_does_not_change_the_value(self) -> None:
        rows, outs = made_data()
        order = random.Random(1).sample(range(len(rows)), len(rows))
        first = self.result()
        (second,) = evaluate([rows[i] for i in order], [outs[i] for i in order], [self.spec])
        if asks_a_model(self.spec):  # the order of a batch changes the last bits of a model's numbers
            assert second.value == pytest.approx(first.value, rel=1e-6)
            return
        assert second.value == first.value
        expected = dict(first.details)
        if built(self.spec).reducer.name != "mean":
            for details in (expected, second.details):
                details.pop("interval", None)  # which sample a draw picks follows their order, and so may flags
        assert second.details == expected
        assert first.scores is not None
        assert list(second.scores or ()) == [first.scores[i] for i in order]

    def check_streaming_without_scores_gives_the_same_value(self) -> None:
        rows, outs = made_data()
        if not built(self.spec).metadata.needs_all:  # what is not kept has no interval where samples belong together
            for row in rows:
                row.labels.pop("variant_of", None)
        (kept,) = evaluate(rows, outs, [self.spec])
        (folded,) = evaluate_stream(zip(rows, outs, strict=True), [self.spec], batch_size=6, keep_scores=False)
        if built(self.spec).reducer.name != "mean":
            # What is not a mean is drawn anew from all samples, or has no interval.
            kept.details.pop("interval", None)
            folded.details.pop("interval", None)
        if asks_a_model(self.spec):
            assert folded.value == pytest.approx(kept.value, abs=1e-5)
            folded.value, folded.details = (
                kept.value,
                {
                    name: pytest.approx(value, abs=1e-5) if isinstance(value, float) else value
                    for name, value in folded.details.items()
                },
            )
        assert (folded.value, folded.details, folded.defined) == (kept.value, kept.details, kept.defined)

    def check_every_sample_has_exactly_one_outcome(self) -> None:
        result = self.result()
        details, outcomes = result.details, list(result.outcomes or ())
        assert len(outcomes) == len(made_data()[0])
        kinds = [text.partition(":")[0] for text in outcomes]
        assert details["num_scored"] == kinds.count("scored")
        assert details["num_skipped"] == kinds.count("skipped")
        assert details["num_system_failed"] == kinds.count("system_failed")
        assert details["num_measure_failed"] == kinds.count("measure_failed")
        assert details["num_failed"] == details["num_system_failed"] + details["num_measure_failed"]
        assert details["num_samples"] == sum(score is not None for score in result.scores or ())
        reasons = sum(n for key, n in details.items() if key.startswith(("skipped_", "failed_")))
        assert reasons == details["num_skipped"] + details["num_failed"]
        known = {*built(self.spec).metadata.skip_reasons, "no_response", "missing_output"}
        assert {text.partition(":")[2] for text in outcomes if text.startswith("skipped:")} <= known

    def check_failures_count_at_the_worst_value_or_are_excluded(self) -> None:
        one = built(self.spec)
        failed: list[tuple[float | None, Any]] = []
        for seed in range(4):  # further data only where no sample of the former failed
            result = self.result(seed)
            scores = list(result.scores or ())
            worst: Any = worst_in(one, Batch(*made_data(seed))) if worst_varies(one) else [one.worst] * len(scores)
            failed += [
                (score, value)
                for score, value, outcome in zip(scores, worst, result.outcomes or (), strict=True)
                if outcome.startswith("system_failed")
            ]
            if failed:
                break
        assert failed
        assert all(score in (value, None) for score, value in failed)

    def check_empty_input_is_undefined(self) -> None:
        (result,) = evaluate([], [], [self.spec])
        assert (result.value, result.defined, result.details["num_samples"]) == (0.0, False, 0)
        direct = built(self.spec).compute([], [])
        assert (direct.value, direct.defined) == (0.0, False)

    def check_compute_and_the_engine_agree(self) -> None:
        assert built(self.spec).compute(*made_data()) == self.result()

    def check_it_travels(self) -> None:
        again = pickle.loads(pickle.dumps(built(self.spec)))
        assert list(evaluate(*made_data(), [again])) == [self.result()]

    def check_its_spec_round_trips(self) -> None:
        one = built(self.spec)
        again = built(spec_of(one))
        assert again == one
        assert (again.name, str(again.signature)) == (one.name, str(one.signature))

    def check_signature_starts_with_the_name_and_parses(self) -> None:
        from auepora_eval.core.conventions import Signature

        one = built(self.spec)
        assert one.signature.name == one.name
        assert Signature.parse(str(one.signature)) == one.signature

    def check_worst_value_is_a_bound_of_the_range(self) -> None:
        one = built(self.spec)
        assert one.worst is None or one.worst in one.range
        assert one.worst is None or math.isfinite(one.worst)


@pytest.mark.parametrize("spec", spec_params())
# Some of the generated nuggets and rubrics are invalid on purpose.
@pytest.mark.filterwarnings(r"ignore:metric 'nugget_recall'. metadata\.nuggets:UserWarning")
@pytest.mark.filterwarnings(r"ignore:metric .rubric_\w+.. labels\.rubric:UserWarning")
def test_every_metric(spec: Spec) -> None:
    checks = Checks(spec)
    failures = []
    for name in (name for name in vars(Checks) if name.startswith("check_")):
        try:
            getattr(checks, name)()
        except Exception as error:
            failures.append(f"{name}: {type(error).__name__}: {error}")
    assert failures == []
