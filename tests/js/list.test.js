// list.js and app.js: the state of the list, counts of outcomes, and addresses of queries.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { reportGlobals } from "./fake_dom.js";
import { loadReport } from "./load.js";
import { reportList, singleRunList } from "./report_data.js";

const NAMES = ["QueryList", "askedId", "queryAddress"];
const load = () => loadReport(NAMES, reportGlobals());

function build(list = reportList()) {
  const { QueryList } = load();
  const queries = new QueryList(list, () => {});
  queries.update();
  return queries;
}

describe("the list", () => {
  test("shows how many queries fit", () => {
    const queries = build();
    assert.equal(queries.count.textContent, "6 queries");
    queries.change({ where: ["hit=hit"] });
    assert.equal(queries.count.textContent, "3 of 6 queries");
    assert.equal(queries.empty.hidden, true);
  });

  test("explains an empty list", () => {
    const queries = build();
    queries.change({ where: ["answer=none"] });
    assert.equal(queries.empty.hidden, false);
    assert.equal(queries.empty.textContent, "No query fits. Clear the filters to see all.");
  });

  test("sorting by a metric shows the worst first, and a second time the best", () => {
    const queries = build();
    const sorted = (key) => { queries.sortBy(key); return queries.state.sort; };
    assert.equal(sorted("recall@5"), "recall@5");
    assert.equal(sorted("recall@5"), "-recall@5");
    assert.equal(sorted("latency"), "-latency", "less is better");
    assert.equal(sorted("judge|quality"), "judge|quality", "a name with a bar");
  });

  test("clearing keeps the run that is compared", () => {
    const queries = build();
    queries.change({ other: 2, where: ["hit=win"] });
    queries.clear();
    assert.deepEqual([queries.state.other, queries.state.where, queries.rows.length], [2, [], 6]);
  });

  test("columns are those that are shown at first, and those that rows are ordered or filtered by", () => {
    const queries = build();
    assert.deepEqual(queries.visibleColumns(), [0, 2]);
    queries.change({ sort: "new" });
    assert.deepEqual(queries.visibleColumns(), [0, 2, 3]);
    queries.change({ where: ["latency>=0"] });
    assert.deepEqual(queries.visibleColumns(), [0, 1, 2, 3]);
  });
});

describe("conditions", () => {
  const chips = (queries) => queries.conditionRows.querySelectorAll("button").map((button) => button.textContent);
  test("a condition is added once, and a press on it removes it", () => {
    const queries = build();
    queries.addCondition("hit=hit");
    queries.addCondition("hit=hit");
    assert.deepEqual(chips(queries), ["hit=hit \u2715"]);
    assert.equal(queries.moreFilters.querySelector("summary").textContent, "Filters (1 active)");
    queries.conditionRows.querySelector("button").click();
    assert.deepEqual([chips(queries), queries.rows.length], [[], 6]);
  });

  test("what is no condition is not added, and the reason is shown", () => {
    const queries = build();
    queries.addCondition("hit=near");
    assert.equal(queries.state.where.length, 0);
    assert.match(queries.problem.textContent, /should be one of hit, miss/);
    queries.addCondition("hit=hit");
    assert.equal(queries.problem.hidden, true);
  });

  test("a wrong condition of an address lists nothing and says why", () => {
    const queries = build();
    queries.setState({ ...queries.state, where: ["bleu<1"] });
    assert.equal(queries.rows.length, 0);
    assert.match(queries.problem.textContent, /no metric 'bleu'/);
  });

  const VALUES = [
    // what it is about, some of its values
    ["label.lang", ["de", "en"]],
    ["answer", ["failed", "refused"]],
    ["A.recall@5", ["better", "system-failed:timeout: 30 s"]],
    ["cause", ["retriever"]],
  ];
  for (const [key, expected] of VALUES) test(`values of ${key}`, () => assert.deepEqual(expected.filter((value) => !build().suggestions(key).includes(value)), []));
  test("of one run there is nothing to compare", () => assert.equal(build(singleRunList()).suggestions("recall@5").includes("better"), false));
});

describe("counts over all queries", () => {
  const labels = (queries) => queries.quick.querySelectorAll("button").map((button) => button.textContent);
  test("changes between two runs", () => {
    assert.deepEqual(labels(build()), ["\u25b2 2 better", "\u25bc 1 worse", "= 1 the same", "\u00b7 2 not scored in both"]);
  });
  test("other runs have other counts", () => {
    const queries = build();
    queries.change({ other: 2 });
    assert.deepEqual(labels(queries), ["\u25b2 2 better", "\u25bc 2 worse", "= 1 the same", "\u00b7 1 not scored in both"]);
  });
  test("outcomes of one run", () => {
    assert.deepEqual(labels(build(singleRunList())), ["4 scored", "1 skipped", "1 failed"]);
  });
  test("a press on a count lists those queries, a second press all", () => {
    const queries = build();
    queries.quick.querySelector("button").click();
    assert.deepEqual([...queries.rows].map((row) => queries.list.ids[row]), ["q2", "q10"]);
    assert.equal(queries.quick.querySelector("button").getAttribute("aria-pressed"), "true");
    queries.quick.querySelector("button").click();
    assert.equal(queries.rows.length, 6);
  });
});

describe("the address of a query", () => {
  const { askedId, queryAddress } = load();
  for (const id of ["q1", "a/b?c#d", "50 %", "\u00fc \ud83d\ude00", ""]) test(`of ${JSON.stringify(id)}`, () => assert.equal(askedId(queryAddress(id)), id));
  test("another address", () => assert.equal(askedId("#f/text=a"), null));
  test("a wrong percent encoding is taken as it is", () => assert.equal(askedId("#q/50%"), "50%"));
});
