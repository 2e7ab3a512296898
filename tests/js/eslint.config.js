// Rules for the scripts of reports and of the workbench. Run from the root of the repository, see .ci/javascript.

import js from "@eslint/js";
import globals from "globals";

const RULES = {
  ...js.configs.recommended.rules,
  eqeqeq: "error",
  "no-implicit-globals": "error",
  "no-shadow-restricted-names": "error",
  "no-unused-expressions": "error",
  "no-unused-vars": "error",
  "no-var": "error",
  "prefer-const": "error",
};

export default [
  { linterOptions: { reportUnusedDisableDirectives: "error" } },
  {
    files: ["src/auepora_eval/ui/assets/*.js"],
    languageOptions: { sourceType: "module", globals: globals.browser },
    rules: RULES,
  },
  {
    files: ["src/auepora_eval/ui/assets/theme.js", "src/auepora_eval/render/assets/*.js", "tests/helpers/*.js"],
    languageOptions: { sourceType: "script", globals: globals.browser },
    rules: RULES,
  },
  {
    // The report joins these files into one function: names of one file are used in others. report_script.test.js lints the whole.
    files: ["src/auepora_eval/report/browser/assets/*.js"],
    languageOptions: { sourceType: "script", globals: globals.browser },
    rules: { ...RULES, "no-implicit-globals": "off", "no-undef": "off", "no-unused-vars": ["error", { vars: "local" }] },
  },
  {
    files: ["tests/js/*.js"],
    languageOptions: { sourceType: "module", globals: globals.nodeBuiltin },
    rules: RULES,
  },
];
