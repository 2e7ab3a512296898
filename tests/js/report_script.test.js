// The script of a report as a whole: its files use names of each other.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Linter } from "eslint";
import globals from "globals";

import { reportScript } from "./load.js";

test("every name is defined, and every definition is used", () => {
  const rules = { "no-undef": "error", "no-unused-vars": "error", "no-redeclare": "error" };
  const whole = `(() => {\n"use strict";\n${reportScript()}\n})();`;
  const options = {
    languageOptions: { sourceType: "script", globals: globals.browser },
    linterOptions: { reportUnusedDisableDirectives: "off" }, // of rules that only the lint of the files has
    rules,
  };
  const problems = new Linter().verify(whole, options);
  assert.deepEqual(problems.map((problem) => `${problem.ruleId}: ${problem.message}`), []);
});
