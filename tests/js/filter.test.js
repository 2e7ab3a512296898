// filter.js: search, conditions on one run or three, order, and the filter in an address.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { reportGlobals } from "./fake_dom.js";
import { loadReport } from "./load.js";
import { IDS, reportList, singleRunList } from "./report_data.js";

const NAMES = ["freshState", "fromAddress", "listedRows", "outcomesIn", "searchTerms", "toAddress"];
const load = () => loadReport(NAMES, reportGlobals());
const RECALL = 0;

function listedIds(list, values) {
  const { freshState, listedRows } = load();
  const searched = (row) => `${list.ids[row]}\n${list.starts[row]}`.toLowerCase();
  return [...listedRows(list, { ...freshState(), ...values }, searched)].map((row) => list.ids[row]).join(" ");
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
  ["without a letter: the run that is compared", { where: ["answer=answered"], other: 2 }, "q1 q2 q10 q3 q4 q5"],
  ["by its letter: any run", { where: ["B.answer=answered"], other: 2 }, "q1 q2 q10 q4"],
  ["won from A to C", { where: ["hit=win"], other: 2 }, "q3 q4 q5"],
  ["one of several labels of a query", { where: ["label.lang=de"] }, "q1"],
  ["better is less", { where: ["latency=better"] }, "q2"],
  ["worse is more", { where: ["latency=worse"] }, "q10"],
  ["the same within rounding", { where: ["latency=same"] }, "q1 q3 q4 q5"],
  ["not scored in both", { where: ["recall@5!=changed", "recall@5!=same"] }, "q4 q5"],
  ["a reason with a colon", { where: ["A.recall@5=failed:timeout: 30 s"] }, "q4"],
  ["another reason", { where: ["A.recall@5=failed:timeout"] }, ""],
  ["no score of a query", { where: ["new=absent"] }, "q4"],
  ["no score in a run without the metric", { where: ["A.new=absent"] }, "q1 q2 q10 q3 q4 q5"],
  ["right below a limit where less is better", { where: ["latency=b-only:1"] }, "q2"],
  ["all conditions hold", { text: "q", where: ["hit=hit", "recall@5=better", "latency=worse"] }, "q10"],
];

describe("queries that a filter lists", () => {
  for (const [reason, state, expected] of FILTERS) test(reason, () => assert.equal(listedIds(reportList(), state), expected));
  test("of one run", () => assert.equal(listedIds(singleRunList(), { where: ["recall@5>=0.5"] }), "q1 q2"));
});

const REFUSED = [
  ["one run has no changes", singleRunList(), { where: ["recall@5=better"] }, "add a second run"],
  ["nor hits that were won", singleRunList(), { where: ["hit=win"] }, "add a second run"],
  ["two definitions have no difference", reportList(), { where: ["diff.judge|quality>0"] }, "it was computed differently"],
  ["a metric without a best score", singleRunList(), { where: ["A.judge|quality=both-right"] }, "add a second run"],
  ["a run that is not there", reportList(), { where: ["D.recall@5>0"] }, "the runs are A, B, C"],
  ["an order by no value", reportList(), { sort: "-answer" }, "cannot sort by 'answer'"],
  ["an order by an unknown metric", reportList(), { sort: "bleu" }, "the runs have no metric 'bleu'"],
];

describe("what a filter refuses", () => {
  for (const [reason, list, state, message] of REFUSED) test(reason, () => assert.throws(() => listedIds(list, state), (error) => error.message.includes(message)));
});

const ORDERS = [
  ["the order of the dataset, backwards", { sort: "-order" }, "q5 q4 q3 q10 q2 q1"],
  ["ids as people count", { sort: "id" }, "q1 q2 q3 q4 q5 q10"],
  ["questions by letters of any case, accents after the plain letter", { sort: "question" }, "q3 q10 q5 q1 q4 q2"],
  ["first hits of B, none last", { sort: "rank" }, "q1 q2 q10 q3 q4 q5"],
  ["none last, also backwards", { sort: "-rank" }, "q10 q1 q2 q3 q4 q5"],
  ["a metric in A", { sort: "A.recall@5" }, "q10 q4 q3 q2 q1 q5"],
  ["a metric in C", { sort: "recall@5", other: 2 }, "q2 q10 q1 q3 q4 q5"],
  ["a difference", { sort: "diff.recall@5" }, "q3 q1 q10 q2 q4 q5"],
  ["a metric whose name has a bar", { sort: "judge|quality" }, "q4 q3 q10 q2 q1 q5"],
  ["a metric that the run lacks: the order of the dataset", { sort: "A.new" }, "q1 q2 q10 q3 q4 q5"],
];

describe("order", () => {
  for (const [reason, state, expected] of ORDERS) test(reason, () => assert.equal(listedIds(reportList(), state), expected));

  test("another order replaces the one that is kept", () => {
    const { freshState, listedRows } = load();
    const list = reportList();
    const ids = (values) => [...listedRows(list, { ...freshState(), ...values }, () => "")].map((row) => IDS[row]).join(" ");
    assert.equal(ids({ sort: "diff.recall@5" }), "q3 q1 q10 q2 q4 q5");
    assert.equal(ids({ sort: "diff.recall@5", other: 2 }), "q1 q2 q10 q3 q4 q5");
    assert.equal(ids({ sort: "diff.recall@5" }), "q3 q1 q10 q2 q4 q5");
  });
});

test("terms of a search", () => {
  const { searchTerms } = load();
  assert.deepEqual(searchTerms(' Two  "Three Words here" x"y z'), ["two", "three words here", 'x"y', "z"]);
  assert.deepEqual(searchTerms(""), []);
});

test("every outcome with a reason occurs once", () => {
  const { outcomesIn } = load();
  const list = reportList();
  assert.deepEqual(outcomesIn(list.metrics[RECALL].runs[0], list.count), ["system-failed:timeout: 30 s", "skipped:no gold"]);
  assert.deepEqual(outcomesIn(null, list.count), []);
});

describe("the filter in an address", () => {
  test("a filter comes back from its address", () => {
    const { fromAddress, toAddress } = load();
    const complete = { text: 'a&b "c d" #100%', where: ["A.recall@5=failed:timeout: 30 s", "label.lang=de"], other: 2, sort: "-diff.judge|quality" };
    assert.deepEqual(fromAddress(reportList(), toAddress(complete)), complete);
  });

  test("nothing chosen: no address", () => {
    const { freshState, toAddress } = load();
    assert.equal(toAddress(freshState()), "");
  });

  const ADDRESSES = [
    // reason, address, the values that differ from an empty filter
    ["another part of the page", "#summary", {}],
    ["an empty condition", "#f/where=+", {}],
    ["a condition that is there twice", "#f/where=id%3Dq1&where=id%3Dq1", { where: ["id=q1"] }],
    ["a run that does not exist", "#f/run=9", {}],
    ["the run that the others are compared with", "#f/run=0", {}],
    ["a run that is no number", "#f/run=x", {}],
    ["an empty order", "#f/sort=", {}],
    ["an unknown key", "#f/colour=red&q=hit", { text: "hit" }],
  ];
  for (const [reason, address, values] of ADDRESSES) {
    test(reason, () => {
      const { freshState, fromAddress } = load();
      assert.deepEqual(fromAddress(reportList(), address), { ...freshState(), ...values });
    });
  }
});
