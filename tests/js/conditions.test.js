// Conditions as a report reads them, by the table of cases that the tests of `auepora queries` read, too.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";

import { reportGlobals } from "./fake_dom.js";
import { loadReport } from "./load.js";
import { unpackedList } from "./report_data.js";

const TABLE = JSON.parse(readFileSync(new URL("../queries/conditions.json", import.meta.url), "utf8"));
const { conditionKey, freshState, listedRows, parseName } = loadReport(["conditionKey", "freshState", "listedRows", "parseName"], reportGlobals());

function listed(...where) {
  const list = unpackedList(TABLE.list);
  return [...listedRows(list, { ...freshState(), where }, () => "")].map((row) => list.ids[row]).join(" ");
}

describe("queries that fulfil a condition", () => {
  for (const [condition, ids] of Object.entries(TABLE.cases)) test(condition, () => assert.equal(listed(condition), ids));
  test("two conditions hold together", () => assert.equal(listed("token_f1=changed", "label.lang=en"), "q10"));
});

describe("messages", () => {
  const matches = (message) => (error) => error.message.includes(message);
  for (const [condition, message] of Object.entries(TABLE.errors)) test(condition, () => assert.throws(() => listed(condition), matches(message)));
  for (const condition of Object.keys(TABLE.elsewhere)) test(condition, () => assert.throws(() => listed(condition), matches("a report")));
  for (const condition of Object.keys(TABLE.hints)) test(condition, () => assert.throws(() => listed(condition)));
});

describe("names are read as they are written", () => {
  for (const name of ["recall@5", "A.b", "diff.x", "rank", "label.lang", "a<b", "'", '"', "a.'b", "odd[a=1]", "x]<", "\\", " "]) {
    for (const run of ["", "A", "diff"]) test(`${run} ${name}`, () => assert.deepEqual(parseName(conditionKey("metric", name, run)), { field: "metric", name, run }));
    test(`label ${name}`, () => assert.deepEqual(parseName(conditionKey("label", name)), { field: "label", name, run: "" }));
  }
});
