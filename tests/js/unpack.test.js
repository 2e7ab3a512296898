// unpack.js: compressed blocks, typed columns and the texts of a query.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { gzipSync } from "node:zlib";

import { FakeElement, reportGlobals } from "./fake_dom.js";
import { loadReport } from "./load.js";

const NAMES = ["blockNumber", "blockOf", "columnOf", "readList", "readQuery", "readSearched"];

/** The script in a page with packed blocks. */
function load(blocks = {}) {
  const elements = {};
  for (const [id, content] of Object.entries(blocks)) {
    const bytes = content instanceof Uint8Array ? content : Buffer.from(JSON.stringify(content));
    elements[id] = new FakeElement("script");
    elements[id].textContent = `\n${gzipSync(bytes).toString("base64")}\n`;
  }
  return loadReport(NAMES, reportGlobals(elements));
}

describe("columns", () => {
  const { columnOf } = load();
  const bytes = new Uint8Array(32);
  new Float64Array(bytes.buffer, 0, 2).set([0.1, NaN]);
  new Uint16Array(bytes.buffer, 16, 2).set([258, 1]);
  bytes.set([0, 2, 1], 20);
  const COLUMNS = [
    ["numbers, and NaN where there is none", { type: "f8", at: 0, count: 2 }, [0.1, NaN]],
    ["codes of two bytes", { type: "u2", at: 16, count: 2 }, [258, 1]],
    ["codes of one byte", { type: "u1", at: 20, count: 3 }, [0, 2, 1]],
    ["values by code; the code after the last is NaN", { type: "u1", at: 20, count: 3, table: [0.25, 1] }, [0.25, NaN, 1]],
    ["an empty column", { type: "f8", at: 0, count: 0 }, []],
  ];
  for (const [reason, packed, expected] of COLUMNS) test(reason, () => assert.deepEqual([...columnOf(packed, bytes.buffer)], expected));
});

describe("the block that contains a number", () => {
  const { blockNumber } = load();
  for (const [number, expected] of [[0, 0], [9, 0], [10, 1], [24, 1], [25, 2], [1000, 2]]) {
    test(`${number}`, () => assert.equal(blockNumber([0, 10, 25], number), expected));
  }
});

test("the list is unpacked into typed columns", async () => {
  const columns = new Uint8Array(40);
  new Float64Array(columns.buffer, 0, 4).set([1, NaN, 0, 0.75]);
  columns.set([2, 3, 0, 1, 1, 0, 0], 32);
  const script = load({
    "qb-columns": columns,
    "qb-list": {
      count: 2, ids: ["a", "b"], starts: ["", ""],
      runs: [{ name: "one", answers: { type: "u1", at: 32, count: 2 }, ranks: { type: "f8", at: 0, count: 3 } }],
      labels: [{ name: "lang", groups: [["en"], ["de"]], codes: { type: "u1", at: 34, count: 2 } }],
      metrics: [
        { name: "all scored", runs: [{ signature: "s", values: { type: "f8", at: 16, count: 2 }, status: { type: "u1", at: 37, count: 2 } }, null] },
        { name: "with reasons", runs: [{ values: { type: "f8", at: 16, count: 2 }, status: { type: "u1", at: 34, count: 2 }, reasons: { type: "u1", at: 36, count: 2 }, names: ["", "no gold"] }] },
      ],
    },
  });
  const list = await script.readList();
  assert.deepEqual([...list.runs[0].answers], [2, 3]);
  assert.deepEqual([...list.runs[0].ranks], [1, NaN, Infinity]);
  assert.equal(list.runs[0].hits, null);
  assert.deepEqual([...list.labels[0].codes], [0, 1]);
  const [scored, absent] = list.metrics[0].runs;
  assert.deepEqual([[...scored.values], [...scored.status], scored.reasons, scored.names], [[0, 0.75], [0, 0], null, [""]]);
  assert.equal(absent, null);
  assert.deepEqual([...list.metrics[1].runs[0].reasons], [1, 0]);
  assert.deepEqual([...list.places], [["a", 0], ["b", 1]]);
});

test("a query gets the texts of its documents from their blocks", async () => {
  const query = { samples: [{ gold: [["d1", 0], ["d3", -1]], others: [["d2", 3]] }], runs: [[0, [{ docs: [["d4", 2]] }, null]], null] };
  const script = load({
    "qb-queries-0": [{ samples: [], runs: [] }],
    "qb-queries-1": [{ samples: [], runs: [] }, query],
    "qb-documents-0": ["zero", "one"],
    "qb-documents-1": ["two", "three"],
  });
  const read = await script.readQuery({ query_blocks: [0, 1], document_blocks: [0, 2] }, 2);
  assert.deepEqual([0, 2, 3].map(read.textOf), ["zero", "two", "three"]);
  assert.equal(read.textOf(1), "", "no document of the query");
  assert.equal(read.textOf(-1), "", "a document without a text");
});

test("ids, questions and answers of all runs are searched in lower case", async () => {
  const script = load({ "qb-search": { questions: ["Who?", "Where?"], answers: [["ADA", ""], ["Ada", "BERN"]] } });
  assert.deepEqual(await script.readSearched({ ids: ["Q1", "q2"] }), ["q1\nwho?\nada\nada", "q2\nwhere?\n\nbern"]);
});

test("a block is unpacked once while it is among the last ones", async () => {
  const blocks = Object.fromEntries(Array.from({ length: 50 }, (_, number) => [`b${number}`, [number]]));
  const { blockOf } = load(blocks);
  const first = blockOf("b0"), second = blockOf("b1");
  for (let number = 2; number < 48; number++) blockOf(`b${number}`);
  assert.equal(blockOf("b0"), first, "used again, so that it is the last one");
  blockOf("b48");
  assert.equal(blockOf("b0"), first);
  assert.notEqual(blockOf("b1"), second, "48 others were used since");
  assert.deepEqual(await blockOf("b1"), [1]);
});
