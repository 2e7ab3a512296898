// Scripts of the workbench: conditions of charts, filters in addresses, and texts of messages.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { FakeElement, fakeDocument } from "./fake_dom.js";
import { loadModule } from "./load.js";

const ignore = () => {};
const SHELL = { announce: ignore, clickedLink: ignore, onKey: ignore, postForm: ignore, replaceFragment: ignore };

describe("brush.js: the conditions of a selected range", () => {
  const { rangeConditions, selectRange, valueAt } = loadModule("brush", ["rangeConditions", "selectRange", "valueAt"], { document: fakeDocument() });
  const area = [40, 10, 200, 100];
  const linear = { kind: "linear", field: "recall", domain: [0, 1], area };
  const steps = { kind: "steps", field: "rank", area, bands: [[0, 20, 1, 1], [20, 40, 2, 5], [40, 60, 6, null], [60, 80, null, null]] };

  const VALUES = [
    ["the left end", linear, 0, 0],
    ["the right end", linear, 200, 1],
    ["a hundredth of the axis", linear, 67, 0.34],
    ["a wide axis has no decimals", { ...linear, domain: [0, 5000] }, 67, 1675],
    ["a narrow axis has more", { ...linear, domain: [0.5, 0.51] }, 66, 0.5033],
    ["the middle of a logarithmic axis", { ...linear, kind: "log", domain: [1, 10000] }, 100, 100],
    ["an axis of one value", { ...linear, domain: [2, 2] }, 50, 2],
  ];
  for (const [reason, scale, x, expected] of VALUES) test(reason, () => assert.equal(valueAt(scale, x), expected));

  test("from and to", () => assert.deepEqual(selectRange(linear, [50, 100]).conditions, ["recall>=0.25", "recall<=0.5"]));
  test("two pixels are a click, not a range", () => assert.equal(selectRange(linear, [50, 52]), null));

  const STEPS = [
    // reason, pixels, conditions, pixels that are drawn
    ["a click selects a band", [30, 30], ["rank>=2", "rank<=5"], [20, 40]],
    ["bands that are touched", [10, 30], ["rank>=1", "rank<=5"], [0, 40]],
    ["a band that is open above", [45, 50], ["rank>=6"], [40, 60]],
    ["no value", [70, 70], ["rank=none"], [60, 80]],
    ["numbers next to no value", [30, 70], ["rank>=2"], [20, 60]],
  ];
  for (const [reason, pixels, conditions, drawn] of STEPS) {
    test(reason, () => {
      const selected = selectRange(steps, pixels);
      assert.deepEqual([selected.conditions, selected.pixels], [conditions, drawn]);
    });
  }
  test("outside of all bands", () => assert.equal(selectRange(steps, [90, 95]), null));

  test("ends that are not given", () => {
    assert.deepEqual(rangeConditions("f1", "", ""), []);
    assert.deepEqual(rangeConditions("f1", null, 0), ["f1<=0"]);
  });
});

describe("run.js: conditions on a field", () => {
  const window = { addEventListener: ignore };
  const globals = { ...SHELL, window, document: fakeDocument(), location: { search: "" }, setUpBrushes: ignore, currentFilters: ignore };
  const { isConditionOn } = loadModule("run", ["isConditionOn"], globals);
  const CASES = [
    ["recall@5", "recall@5>=0.5", true],
    ["recall@5", "recall@5!=none", true],
    ["recall@5", "recall@50>=0.5", false],
    ["recall@5", "f1>=0.5", false],
  ];
  for (const [field, condition, expected] of CASES) test(`${condition} is ${expected ? "" : "not "}on ${field}`, () => assert.equal(isConditionOn(field, condition), expected));
});

describe("queries.js: filters", () => {
  const window = { addEventListener: ignore };
  const load = (search) => loadModule("queries", ["currentFilters", "paramsOf"], { ...SHELL, window, document: fakeDocument(), location: { search } });

  test("only filters are taken from the address of a page", () => {
    const { currentFilters } = load("?run=a&run=b&where=f1%3E0.5&where=lang%3Dde&q=x+y&sort=f1&after=q1&size=50&tab=3");
    assert.equal(String(currentFilters()), "q=x+y&where=f1%3E0.5&where=lang%3Dde&sort=f1&after=q1&size=50");
  });
  test("the shown list has the filter, not the list that was asked for", () => {
    const { paramsOf } = load("");
    const root = new FakeElement("div");
    root.dataset.params = "q=old";
    assert.equal(String(paramsOf(root)), "q=old");
    const part = new FakeElement("div");
    part.setAttribute("class", "query-part");
    part.dataset.params = "q=new";
    root.append(part);
    assert.equal(String(paramsOf(root)), "q=new");
  });
  test("a list without a filter", () => assert.equal(String(load("").paramsOf(new FakeElement("div"))), ""));
});

describe("compare.js: links of a comparison", () => {
  const location = new URL("http://localhost/compare?run=a&run=b");
  const { queryUrl } = loadModule("compare", ["queryUrl"], { ...SHELL, showQueries: ignore, document: fakeDocument(), location });

  test("a query of a report becomes a page of the workbench", () => {
    const link = new FakeElement("a");
    link.setAttribute("href", "#q/50%20%25%26");
    assert.equal(queryUrl(link), "/query?run=a&run=b&id=50+%25%26");
  });
});

describe("live.js: durations", () => {
  const globals = { ...SHELL, document: { ...fakeDocument(), hidden: true }, addEventListener: ignore, setInterval: ignore };
  const { formatDuration } = loadModule("live", ["formatDuration"], globals);
  for (const [seconds, expected] of [[0, "0 s"], [59.9, "59 s"], [60, "1 min 0 s"], [3599, "59 min 59 s"], [3600, "1 h 0 min"], [90061, "25 h 1 min"]]) {
    test(`${seconds}`, () => assert.equal(formatDuration(seconds), expected));
  }
});

describe("runs.js: letters of runs", () => {
  const { letter } = loadModule("runs", ["letter"], { ...SHELL, document: fakeDocument(), sessionStorage: { getItem: () => null } });
  for (const [place, expected] of [[0, "A"], [25, "Z"], [26, "27"]]) test(`${place}`, () => assert.equal(letter(place), expected));
});

describe("label.js", () => {
  const load = (search = "") => {
    const frame = new FakeElement("div");
    frame.dataset = { batch: "b1", annotator: "Ann & Bo" };
    const heading = new FakeElement("h1");
    heading.textContent = "Item 3 of 9";
    const item = new FakeElement("div");
    item.dataset = { item: "3", state: "open" };
    const stored = new Map();
    const sessionStorage = { getItem: (key) => stored.get(key) ?? null, setItem: (key, value) => stored.set(key, value), removeItem: (key) => stored.delete(key) };
    const globals = {
      ...SHELL, document: fakeDocument({ label: frame, "label-heading": heading, "label-item": item }), window: { addEventListener: ignore },
      location: new URL(`http://localhost/label/b1${search}`), sessionStorage, matchMedia: () => ({ matches: false }), setInterval: ignore,
    };
    return { ...loadModule("label", ["itemUrl", "problemText", "read", "write"], globals), stored };
  };

  test("the address of an item names the annotator", () => {
    assert.equal(load().itemUrl("4").href, "http://localhost/label/b1?as=Ann+%26+Bo&item=4");
    assert.equal(load().itemUrl("").href, "http://localhost/label/b1?as=Ann+%26+Bo");
    assert.equal(load("?adjudicate=1").itemUrl("").href, "http://localhost/label/b1?as=Ann+%26+Bo&adjudicate=1");
  });
  test("values are stored by batch and annotator until they are removed", () => {
    const { read, write, stored } = load();
    write("comment:3", "a note");
    assert.deepEqual([...stored], [["auepora-label:b1:Ann & Bo:comment:3", '"a note"']]);
    assert.equal(read("comment:3"), "a note");
    write("comment:3", null);
    assert.equal(read("comment:3"), null);
  });
  test("a stored value that cannot be read is none", () => {
    const { read, stored } = load();
    stored.set("auepora-label:b1:Ann & Bo:pending", "{");
    assert.equal(read("pending"), null);
  });
  test("every problem says that the input is kept", () => {
    const { problemText } = load();
    const errors = [{ status: 403 }, { status: 503, message: "The store is busy." }, { message: "offline" }];
    for (const error of errors) assert.match(problemText(error), /Your input is kept here/);
    assert.match(problemText(errors[1]), /^The store is busy\. /);
  });
});
