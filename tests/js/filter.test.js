// filter.js: which queries a filter lists, in which order, and the filter in an address.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { reportGlobals } from "./fake_dom.js";
import { loadReport } from "./load.js";
import { IDS, reportList, singleRunList } from "./report_data.js";

const NAMES = ["changeOf", "freshCondition", "freshState", "fromAddress", "listedRows", "outcomesIn", "searchTerms", "toAddress"];
const load = () => loadReport(NAMES, reportGlobals());
const RECALL = 0, LATENCY = 1, JUDGED = 2, ONLY_IN_B = 3;

function listedIds(list, values) {
  const { freshCondition, freshState, listedRows } = load();
  const conditions = (values.conditions ?? []).map((condition) => ({ ...freshCondition(), ...condition }));
  const state = { ...freshState(), ...values, conditions };
  const searched = (row) => `${list.ids[row]}\n${list.starts[row]}`.toLowerCase();
  return [...listedRows(list, state, searched)].map((row) => list.ids[row]).join(" ");
}

const FILTERS = [
  // reason, state, ids in the order of the list
  ["nothing chosen: all", {}, "q1 q2 q10 q3 q4 q5"],
  ["two words must both occur", { text: "apple pie" }, "q3"],
  ["words in quotes stand together", { text: '"pie apple"' }, ""],
  ["letters of any case", { text: "APPLE" }, "q3"],
  ["ids are searched, too", { text: "q1" }, "q1 q10"],
  ["a quotation mark that is not closed begins a word", { text: '"apple pie' }, ""],
  ["blanks are no search", { text: "  " }, "q1 q2 q10 q3 q4 q5"],
  ["answers of the other run", { answers: "2" }, "q1 q2 q10 q4"],
  ["answers of the third run", { answers: "2", other: 2 }, "q1 q2 q10 q3 q4 q5"],
  ["state 0 is a choice, not an empty one", { answers: "0" }, ""],
  ["a first hit in B", { hit: "hit" }, "q1 q2 q10"],
  ["no hit in B, failed or not", { hit: "miss" }, "q3 q4 q5"],
  ["won from A to B", { hit: "win" }, "q2 q10"],
  ["no longer found in B", { hit: "regression" }, "q3"],
  ["won from A to C", { hit: "win", other: 2 }, "q3 q4 q5"],
  ["a label", { labels: new Map([["lang", "en"]]) }, "q1 q2 q3 q4"],
  ["one of several labels of a query", { labels: new Map([["lang", "de"]]) }, "q1"],
  ["no label chosen", { labels: new Map([["lang", ""]]) }, "q1 q2 q10 q3 q4 q5"],
  ["a label that is not in the list", { labels: new Map([["tone", "rude"]]) }, "q1 q2 q10 q3 q4 q5"],
  ["both ends of a range belong to it", { conditions: [{ metric: RECALL, low: "0.25", high: "1" }] }, "q1 q2 q10"],
  ["a range of A", { conditions: [{ metric: RECALL, of: "first", low: "0.25" }] }, "q1 q2 q3"],
  ["a lower end of 0 is a limit", { conditions: [{ metric: ONLY_IN_B, low: "0" }] }, "q1 q10 q3 q4 q5"],
  ["what is not scored is in no range", { conditions: [{ metric: RECALL, low: "-1000" }] }, "q1 q2 q10 q3"],
  ["a range of the difference", { conditions: [{ metric: RECALL, of: "delta", low: "0.1" }] }, "q2 q10"],
  ["no difference between two definitions", { conditions: [{ metric: JUDGED, of: "delta", low: "-1000" }] }, ""],
  ["a number that is not finished is no limit", { conditions: [{ metric: RECALL, low: "-" }] }, "q1 q2 q10 q3 q4 q5"],
  ["better", { conditions: [{ metric: RECALL, change: "better" }] }, "q2 q10"],
  ["worse", { conditions: [{ metric: RECALL, change: "worse" }] }, "q3"],
  ["not scored in both", { conditions: [{ metric: RECALL, change: "none" }] }, "q4 q5"],
  ["better is less", { conditions: [{ metric: LATENCY, change: "better" }] }, "q2"],
  ["worse is more", { conditions: [{ metric: LATENCY, change: "worse" }] }, "q10"],
  ["the same within rounding", { conditions: [{ metric: LATENCY, change: "same" }] }, "q1 q3 q4 q5"],
  ["scored", { conditions: [{ metric: RECALL, outcome: "scored" }] }, "q1 q2 q10 q3"],
  ["skipped", { conditions: [{ metric: RECALL, outcome: "skipped" }] }, "q5"],
  ["failed: the measurement", { conditions: [{ metric: RECALL, outcome: "failed" }] }, "q4"],
  ["failed: the system", { conditions: [{ metric: RECALL, of: "first", outcome: "failed" }] }, "q4"],
  ["only failures of the system", { conditions: [{ metric: RECALL, outcome: "system" }] }, ""],
  ["a reason with a colon", { conditions: [{ metric: RECALL, of: "first", outcome: "system:timeout: 30 s" }] }, "q4"],
  ["another reason", { conditions: [{ metric: RECALL, of: "first", outcome: "system:timeout" }] }, ""],
  ["no score of a query", { conditions: [{ metric: ONLY_IN_B, outcome: "absent" }] }, "q4"],
  ["no score in a run without the metric", { conditions: [{ metric: ONLY_IN_B, of: "first", outcome: "absent" }] }, "q1 q2 q10 q3 q4 q5"],
  ["an outcome that does not exist", { conditions: [{ metric: RECALL, outcome: "lost" }] }, ""],
  ["no metric chosen", { conditions: [{ metric: -1, low: "5" }] }, "q1 q2 q10 q3 q4 q5"],
  ["all conditions hold", { text: "q", hit: "hit", conditions: [{ metric: RECALL, change: "better" }, { metric: LATENCY, change: "worse" }] }, "q10"],
];

describe("queries that a filter lists", () => {
  for (const [reason, state, expected] of FILTERS) test(reason, () => assert.equal(listedIds(reportList(), state), expected));

  test("one run: conditions are about it, and there are no changes", () => {
    assert.equal(listedIds(singleRunList(), { conditions: [{ metric: RECALL, low: "0.5" }] }), "q1 q2");
    assert.equal(listedIds(singleRunList(), { conditions: [{ metric: RECALL, change: "better" }] }), "");
    assert.equal(listedIds(singleRunList(), { answers: "3" }), "q4");
  });
});

const ORDERS = [
  ["the order of the dataset, backwards", { descending: true }, "q5 q4 q3 q10 q2 q1"],
  ["ids as people count", { sort: "id" }, "q1 q2 q3 q4 q5 q10"],
  ["questions by letters of any case, accents after the plain letter", { sort: "question" }, "q3 q10 q5 q1 q4 q2"],
  ["first hits of B, none last", { sort: "hit" }, "q1 q2 q10 q3 q4 q5"],
  ["none last, also backwards", { sort: "hit", descending: true }, "q10 q1 q2 q3 q4 q5"],
  ["a metric in A", { sort: "first|recall@5" }, "q10 q4 q3 q2 q1 q5"],
  ["a metric in C", { sort: "last|recall@5", other: 2 }, "q2 q10 q1 q3 q4 q5"],
  ["a difference", { sort: "delta|recall@5" }, "q3 q1 q10 q2 q4 q5"],
  ["a metric whose name has a bar", { sort: "last|judge|quality" }, "q4 q3 q10 q2 q1 q5"],
  ["a metric that no run has: the order of the dataset", { sort: "last|bleu" }, "q1 q2 q10 q3 q4 q5"],
  ["a metric that the run lacks: the order of the dataset", { sort: "first|new" }, "q1 q2 q10 q3 q4 q5"],
];

describe("order", () => {
  for (const [reason, state, expected] of ORDERS) test(reason, () => assert.equal(listedIds(reportList(), state), expected));

  test("another order replaces the one that is kept", () => {
    const { freshState, listedRows } = load();
    const list = reportList();
    const ids = (values) => [...listedRows(list, { ...freshState(), conditions: [], ...values }, () => "")].map((row) => IDS[row]).join(" ");
    assert.equal(ids({ sort: "delta|recall@5" }), "q3 q1 q10 q2 q4 q5");
    assert.equal(ids({ sort: "delta|recall@5", other: 2 }), "q1 q2 q10 q3 q4 q5");
    assert.equal(ids({ sort: "delta|recall@5" }), "q3 q1 q10 q2 q4 q5");
  });
});

test("terms of a search", () => {
  const { searchTerms } = load();
  assert.deepEqual(searchTerms(' Two  "Three Words here" x"y z'), ["two", "three words here", 'x"y', "z"]);
  assert.deepEqual(searchTerms(""), []);
});

test("every outcome and reason occurs once", () => {
  const { outcomesIn } = load();
  const list = reportList();
  const found = outcomesIn(list.metrics[RECALL].runs[0], list.count).map(({ word, reason }) => `${word} ${reason}`);
  assert.deepEqual(found, ["scored ", "system failed timeout: 30 s", "skipped no gold"]);
  assert.deepEqual(outcomesIn(null, list.count), []);
});

describe("the filter in an address", () => {
  const complete = {
    text: 'a&b "c d" #100%', answers: "0", hit: "win", labels: new Map([["lang", "de"]]), other: 2, sort: "delta|judge|quality", descending: true,
    conditions: [
      { metric: RECALL, of: "first", outcome: "system:timeout: 30 s", low: "0", high: "0.5", change: "" },
      { metric: JUDGED, of: "last", outcome: "", low: "", high: "", change: "none" },
    ],
  };

  test("a filter comes back from its address", () => {
    const { fromAddress, toAddress } = load();
    assert.deepEqual(fromAddress(reportList(), toAddress(reportList(), complete)), complete);
  });

  test("nothing chosen: no address", () => {
    const { freshState, toAddress } = load();
    assert.equal(toAddress(reportList(), freshState()), "");
  });

  test("a metric without a condition is not in the address", () => {
    const { freshCondition, freshState, toAddress } = load();
    assert.equal(toAddress(reportList(), { ...freshState(), conditions: [{ ...freshCondition(), metric: RECALL }] }), "");
  });

  const ADDRESSES = [
    // reason, address, the values that differ from an empty filter
    ["another part of the page", "#summary", {}],
    ["an unknown metric", `#f/metric=${encodeURIComponent('["bleu","last","scored","","",""]')}`, {}],
    ["a condition that was cut short", `#f/metric=${encodeURIComponent('["recall@5","la')}`, {}],
    ["a condition that is no list", "#f/metric=5", {}],
    ["a run that does not exist", "#f/run=9", {}],
    ["the run that the others are compared with", "#f/run=0", {}],
    ["a run that is no number", "#f/run=x", {}],
    ["an unknown key", "#f/colour=red&hit=hit", { hit: "hit" }],
    ["a condition without its last parts", `#f/metric=${encodeURIComponent('["recall@5","first","scored"]')}`,
      { conditions: [{ metric: RECALL, of: "first", outcome: "scored", low: "", high: "", change: "" }] }],
    ["a null in a condition", `#f/metric=${encodeURIComponent('["recall@5","last",null,"0.5",null,""]')}`,
      { conditions: [{ metric: RECALL, of: "last", outcome: "", low: "0.5", high: "", change: "" }] }],
  ];
  for (const [reason, address, values] of ADDRESSES) {
    test(reason, () => {
      const { freshState, fromAddress } = load();
      const state = fromAddress(reportList(), address);
      state.labels = new Map([...state.labels].filter(([, value]) => value !== ""));
      assert.deepEqual(state, { ...freshState(), ...values });
    });
  }
});
