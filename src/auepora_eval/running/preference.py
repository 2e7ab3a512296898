"""Compare the answers of two stored runs with a judge, and select the judge of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.errors import BadValueError, did_you_mean
from ..judge.preference import prefer
from ..judge.preference_report import PreferenceReport

if TYPE_CHECKING:
    from ..core.types import SystemOutputs
    from ..judge.critic import Critic
    from ..judge.policy import JudgePolicy
    from ..judge.session import JudgeSession
    from ..planfile.planned_judges import PlannedJudges
    from ..store.records import RunRecord
    from ..store.runs import RunStore

__all__ = ["prefer_runs", "select_judge"]


def prefer_runs(
    store: RunStore,
    record_a: RunRecord,
    record_b: RunRecord,
    critic: Critic,
    *,
    judging: JudgeSession | JudgePolicy | None = None,
    prompt: object = None,
) -> PreferenceReport:
    """Let a judge compare the answers of two runs on their common samples. Of repeats, the first is judged."""
    samples = store.samples(record_b.run_id)
    if record_a.fingerprint != record_b.fingerprint:
        known = set(store.sample_ids(record_a.run_id))
        samples = [sample for sample in samples if sample.sample_id in known]
    if not samples:
        raise BadValueError(f"{record_a.run_id} and {record_b.run_id} have no sample in common")

    def answers(record: RunRecord) -> list[SystemOutputs | None]:
        found = {row.sample_id: row.output for row in store.outputs(record.run_id, repeat=0)}
        return [found.get(sample.sample_id) for sample in samples]

    names = (record_a.name, record_b.name)
    if record_a.name == record_b.name:
        names = (record_a.run_id, record_b.run_id)
    outputs = answers(record_a), answers(record_b)
    return prefer(samples, outputs[0], outputs[1], critic, judging=judging, prompt=prompt, names=names)


def select_judge(judges: PlannedJudges, name: str | None, *, need_key: bool = True) -> Any:
    """Build the judge: the named resource, else the one called ``judge``, else the only one."""
    names = judges.names
    if not names:
        raise BadValueError("there is no judge: give a plan with 'resources' (--plan), or a model (--judge-model)")
    if name is None:
        name = "judge" if "judge" in names else names[0]
        if len(names) > 1 and name != "judge":
            raise BadValueError(f"there are several resources ({', '.join(names)}); select the judge with --judge")
    if name not in names:
        hint = did_you_mean(name, names, otherwise=f"; there are {', '.join(names)}")
        raise BadValueError(f"there is no resource '{name}'{hint}")
    return judges.build([name], need_key=need_key)[name]
