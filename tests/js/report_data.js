// Three runs of six queries as the list of a report has them after unpacking.

const SCORED = 0, SKIPPED = 1, SYSTEM_FAILED = 2, MEASUREMENT_FAILED = 3, ABSENT = 255;
const NONE = NaN, LOST = Infinity;
const SAME = ["", "", ""], OTHER = ["", "it was computed differently", "it was computed differently"];

export const IDS = ["q1", "q2", "q10", "q3", "q4", "q5"];

function side(values, status = IDS.map(() => SCORED), reasons = null, names = [""]) {
  return { values: Float64Array.from(values), status: Uint8Array.from(status), reasons: reasons && Uint8Array.from(reasons), names };
}

function run(name, answers, ranks, hits = null) {
  return { name, answers: Uint8Array.from(answers), ranks: Float64Array.from(ranks), hits: hits && Uint8Array.from(hits), dropped: null, seconds: null };
}

/** A list whose columns are written as lists of numbers, as the script has it after unpacking. */
export function unpackedList(plain) {
  const numbers = (values) => values && Float64Array.from(values, (value) => value ?? NaN);
  const codes = (values) => values && Uint8Array.from(values);
  const ofSide = ({ values, status, reasons, names, causes, cause_codes }) =>
    ({ values: numbers(values), status: codes(status), reasons: codes(reasons), names, causes, causeCodes: codes(cause_codes) });
  const ofRun = (one) => ({ ...one, answers: codes(one.answers), seconds: numbers(one.seconds), ranks: numbers(one.ranks).map((rank) => (rank === 0 ? Infinity : rank)) });
  return {
    ...plain,
    runs: plain.runs.map(ofRun),
    metrics: plain.metrics.map((metric) => ({ ...metric, runs: metric.runs.map((side) => side && ofSide(side)) })),
  };
}

/** Metrics: one where more is better, one where less is, one that is defined differently in the two runs, one of run B only. */
export function reportList() {
  return {
    count: IDS.length,
    ids: IDS,
    starts: ["Where is Zürich?", "zebra facts", "\u00c4pfel", "apple pie", "Who said no?", "Cost of 5 kg"],
    runs: [
      run("plain", [4, 4, 4, 4, 1, 255], [1, 3, LOST, 2, LOST, NONE]),
      run("better", [4, 4, 4, 0, 4, 1], [1, 1, 4, LOST, LOST, LOST], [3, 1, 5, 4, 3, 3]),
      run("worse", [4, 4, 4, 4, 4, 4], [2, LOST, LOST, 1, 1, 1], [2, 4, 3, 1, 1, 1]),
    ],
    labels: [{ name: "lang", groups: [[], ["en"], ["de", "en"]], codes: Uint8Array.from([2, 1, 0, 1, 1, 0]) }],
    metrics: [
      {
        name: "recall@5", target: "retrieval", higher: true, problems: SAME, right: 1, rounding: 1e-9, shown: true,
        runs: [
          side([1, 0.5, 0, 0.25, 0, NONE], [SCORED, SCORED, SCORED, SCORED, SYSTEM_FAILED, SKIPPED], [0, 0, 0, 0, 1, 2], ["", "timeout: 30 s", "no gold"]),
          side([1, 1, 0.25, 0, NONE, NONE], [SCORED, SCORED, SCORED, SCORED, MEASUREMENT_FAILED, SKIPPED], [0, 0, 0, 0, 1, 2], ["", "bad grade", "no gold"]),
          side([0.5, 0, 0, 1, 1, 1]),
        ],
      },
      {
        name: "latency", target: "system", higher: false, problems: SAME, right: 1, rounding: 0.01, shown: false,
        runs: [side([1, 2, 3, 4, 5, 6]), side([1.005, 1, 4, 4, 5, 6]), side([1, 2, 3, 4, 5, 6])],
      },
      {
        name: "judge|quality", target: "answer", higher: true, problems: OTHER, right: null, rounding: 0, shown: true,
        runs: [side([1, 2, 3, 4, 5, 1]), side([5, 4, 3, 2, 1, 5]), null],
      },
      { name: "new", target: "answer", higher: true, problems: OTHER, right: null, rounding: 0, shown: false, runs: [null, side([0, -1, 1, 0, 0, 0], [0, 0, 0, 0, ABSENT, 0]), null] },
    ],
  };
}

/** The same with run A alone. */
export function singleRunList() {
  const list = reportList();
  return { ...list, runs: list.runs.slice(0, 1), metrics: list.metrics.map((metric) => ({ ...metric, runs: metric.runs.slice(0, 1) })) };
}
