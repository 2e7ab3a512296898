// dom.js: texts of people and models as elements, and numbers for people.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { FakeElement, outline, reportGlobals } from "./fake_dom.js";
import { loadReport } from "./load.js";

const NAMES = ["beginning", "figure", "letter", "make", "markedParts", "metricName", "oneLine", "pieceEnd", "plural", "seconds", "signed", "textBlock", "visible"];
const script = loadReport(NAMES, reportGlobals());

const CASES = [
  // function, arguments, result, reason
  ["visible", ["plain, \ttab\nline"], "plain, \ttab\nline", "tabs and line ends stay"],
  ["visible", ["a\r\nb"], "a\nb", "a line end of Windows is one"],
  ["visible", ["a\u0000b\u007f"], "a\u2400b\u2421", "control characters have pictures"],
  ["visible", ["abc\u202edef"], "abc\u27e6U+202E\u27e7def", "a mark that turns the text is written out"],
  ["visible", ["a\u200bb"], "a\u27e6U+200B\u27e7b", "so is a blank without width"],
  ["visible", ["\u{e0041}"], "\u27e6U+E0041\u27e7", "so are invisible letters"],
  ["visible", ["\ud800 x"], "\u27e6U+D800\u27e7 x", "so is half of a character"],
  ["visible", ["\ud83d\udc68\u200d\ud83d\udc69"], "\ud83d\udc68\u200d\ud83d\udc69", "emoji need joiners"],
  ["beginning", ["abcdef", 3], "abc", "the first characters"],
  ["beginning", ["abc", 3], "abc", "as long as allowed"],
  ["beginning", ["ab\ud83d\ude00c", 3], "ab", "a character is not cut"],
  ["oneLine", ["a\n\n\tb\rc"], "a b c", "one line"],
  ["figure", [NaN], "", "no value"],
  ["figure", [0], "0", "zero"],
  ["figure", [3], "3", "an integer has no decimals"],
  ["figure", [-2], "\u22122", "a minus, not a hyphen"],
  ["figure", [0.12345], "0.123", "three decimals"],
  ["figure", [0.0012345], "0.0012", "a small number has two digits"],
  ["figure", [123.456], "123.5", "a large one has one decimal"],
  ["figure", [1234567], "1.23e+6", "a very large one is a power"],
  ["figure", [0.000012345], "1.23e\u22125", "a very small one, too"],
  ["figure", [-0.000012345], "\u22121.23e\u22125", "both signs are minus signs"],
  ["signed", [0.5], "+0.500", "more has a plus"],
  ["signed", [-0.5], "\u22120.500", "less has a minus"],
  ["signed", [0], "0", "the same has neither"],
  ["signed", [NaN], "", "no difference"],
  ["plural", [1, "query", "queries"], "1 query", "one"],
  ["plural", [1200, "query", "queries"], "1,200 queries", "many"],
  ["plural", [0, "word"], "0 words", "none"],
  ["letter", [0], "A", "the first run"],
  ["letter", [26], "run 27", "after the alphabet"],
  ["seconds", [0.0123], "12.3 ms", "milliseconds"],
  ["seconds", [0.5], "0.5 s", "seconds"],
  ["seconds", [12.34567], "12.35 s", "four digits"],
  ["pieceEnd", ["x".repeat(5000), 0, 5000], 5000, "little more than a piece is one"],
  ["pieceEnd", [`${"x".repeat(3000)}\n${"y".repeat(9000)}`, 0, 12001], 3001, "a piece ends with a line"],
  ["pieceEnd", [`${"x".repeat(3000)} ${"y".repeat(9000)}`, 0, 12001], 3001, "or with a word"],
  ["pieceEnd", ["x".repeat(12000), 0, 12000], 4000, "or anywhere"],
  ["pieceEnd", [`${"x".repeat(3999)}${"\ud83d\ude00".repeat(9000)}`, 0, 21999], 3999, "but not within a character"],
];

describe("texts and numbers", () => {
  for (const [name, values, expected, reason] of CASES) test(`${name}: ${reason}`, () => assert.equal(script[name](...values), expected));
});

describe("make", () => {
  test("attributes without a value are left out", () => {
    const element = script.make("input", { type: "text", hidden: true, disabled: false, title: null, id: undefined });
    assert.deepEqual([...element.attributes], [["type", "text"], ["hidden", ""]]);
  });
  test("children may be nested; what is null is left out", () => {
    assert.equal(outline(script.make("p", {}, "a", [script.make("b", {}, "c"), [null, "d"]], undefined)), "<p>a<b>c</b>d</p>");
  });
  test("listeners", () => {
    let clicks = 0;
    script.make("button", { onclick: () => { clicks += 1; } }).click();
    assert.equal(clicks, 1);
  });
  test("markup in a text stays text", () => {
    assert.deepEqual(script.make("p", { text: "<b>" }).children, ["<b>"]);
  });
});

describe("marked parts of a text", () => {
  const parts = (from, to, marks) => script.markedParts("0123456789", from, to, marks, () => new FakeElement("mark")).map(outline).join("|");
  const MARKS = [
    ["none", 0, 10, [], "0123456789"],
    ["in the middle", 0, 10, [[2, 4]], "01|<mark>23</mark>|456789"],
    ["the whole text", 0, 10, [[0, 10]], "<mark>0123456789</mark>"],
    ["neighbours", 0, 10, [[0, 3], [3, 5]], "<mark>012</mark>|<mark>34</mark>|56789"],
    ["an overlap is marked once", 0, 10, [[1, 5], [3, 7]], "0|<mark>1234</mark>|<mark>56</mark>|789"],
    ["a mark inside another is not repeated", 0, 10, [[1, 7], [2, 4]], "0|<mark>123456</mark>|789"],
    ["a piece shows its part of a mark", 4, 6, [[2, 8]], "<mark>45</mark>"],
    ["marks outside of a piece", 4, 6, [[0, 2], [8, 9]], "45"],
  ];
  for (const [reason, from, to, marks, expected] of MARKS) test(reason, () => assert.equal(parts(from, to, marks), expected));
});

describe("a long text", () => {
  test("its beginning and a button that shows the rest and hides it again", () => {
    const block = script.textBlock("x".repeat(30), { limit: 10 });
    const [text] = block.querySelectorAll(".qb-text");
    const [button] = block.querySelectorAll("button");
    assert.equal(text.textContent, `${"x".repeat(10)}\u2026`);
    assert.equal(button.textContent, "show all 30 characters");
    button.click();
    assert.equal(text.textContent, "x".repeat(30));
    assert.equal(button.textContent, "show less");
    button.click();
    assert.equal(text.textContent, `${"x".repeat(10)}\u2026`);
  });
  test("a little over the limit is shown in full", () => {
    const block = script.textBlock("x".repeat(12), { limit: 10 });
    assert.equal(block.textContent, "x".repeat(12));
    assert.deepEqual(block.querySelectorAll("button"), []);
  });
  test("pieces of a very long text add up to it", () => {
    const text = "word \ud83d\ude00 ".repeat(5000);
    const block = script.textBlock(text, { limit: 100000 });
    assert.ok(block.querySelectorAll(".qb-piece").length > 5);
    assert.equal(block.textContent, text);
  });
});

test("the name of a metric may break after its parts", () => {
  assert.equal(outline(script.metricName("recall@5[a_b]")), "<bdi>recall@<wbr></wbr>5[<wbr></wbr>a_<wbr></wbr>b]<wbr></wbr></bdi>");
});
