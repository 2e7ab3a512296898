// list.js and app.js: the state of the list, counts of outcomes, and addresses of queries.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { reportGlobals } from "./fake_dom.js";
import { loadReport } from "./load.js";
import { reportList, singleRunList } from "./report_data.js";

const NAMES = ["QueryList", "askedId", "freshCondition", "queryAddress"];
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
    queries.change({ hit: "hit" });
    assert.equal(queries.count.textContent, "3 of 6 queries");
    assert.equal(queries.empty.hidden, true);
  });

  test("explains an empty list", () => {
    const queries = build();
    queries.change({ answers: "0" });
    assert.equal(queries.empty.hidden, false);
    assert.equal(queries.empty.textContent, "No query fits. Clear the filters to see all.");
  });

  test("sorting by a metric shows the worst first, and a second time the best", () => {
    const queries = build();
    queries.sortBy("last|recall@5");
    assert.equal(queries.state.descending, false);
    queries.sortBy("last|recall@5");
    assert.equal(queries.state.descending, true);
    queries.sortBy("last|latency");
    assert.equal(queries.state.descending, true, "less is better");
    queries.sortBy("last|judge|quality");
    assert.equal(queries.state.descending, false, "a name with a bar");
  });

  test("clearing keeps the run that is compared", () => {
    const queries = build();
    queries.change({ other: 2, hit: "win" });
    queries.clear();
    assert.deepEqual([queries.state.other, queries.state.hit, queries.rows.length], [2, "", 6]);
  });

  test("columns are those that are shown at first, and those that rows are ordered or filtered by", () => {
    const queries = build();
    assert.deepEqual(queries.visibleColumns(), [0, 2]);
    queries.change({ sort: "last|new" });
    assert.deepEqual(queries.visibleColumns(), [0, 2, 3]);
    queries.change({ conditions: [{ ...load().freshCondition(), metric: 1 }] });
    assert.deepEqual(queries.visibleColumns(), [0, 1, 2, 3]);
  });
});

describe("active filters", () => {
  const { freshCondition } = load();
  const CASES = [
    ["none", {}, 0],
    ["an empty label", { labels: new Map([["lang", ""]]) }, 0],
    ["answers, hit and label", { answers: "0", hit: "hit", labels: new Map([["lang", "en"]]) }, 3],
    ["a metric alone is no condition", { conditions: [{ ...freshCondition(), metric: 0 }] }, 0],
    ["a limit of 0 is one", { conditions: [{ ...freshCondition(), metric: 0, low: "0" }] }, 1],
    ["a condition without a metric is none", { conditions: [{ ...freshCondition(), low: "0" }] }, 0],
  ];
  for (const [reason, values, expected] of CASES) {
    test(reason, () => {
      const queries = build();
      queries.change(values);
      assert.equal(queries.activeFilters(), expected);
      assert.equal(queries.moreFilters.querySelector("summary").textContent, expected ? `Filters (${expected} active)` : "Filters");
    });
  }
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
