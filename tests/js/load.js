// Loads scripts of the package without a browser: as functions whose parameters are the globals that they use.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import vm from "node:vm";

const SOURCE = new URL("../../src/auepora_eval/", import.meta.url);

function readSource(path) {
  return readFileSync(new URL(path, SOURCE), "utf8");
}

function run(code, path, names, globals) {
  const whole = `"use strict"; ${code}\nreturn { ${names.join(", ")} };`;
  const start = vm.compileFunction(whole, Object.keys(globals), { filename: fileURLToPath(new URL(path, SOURCE)) });
  return start(...Object.values(globals));
}

/** The script of a report as listing.py joins it. */
export function reportScript() {
  const [, listed] = /^SCRIPTS = \((.*?)\)$/ms.exec(readSource("report/browser/listing.py"));
  const files = [...listed.matchAll(/"(\w+)"/g)].map(([, name]) => `report/browser/assets/${name}.js`);
  return files.map(readSource).join("\n");
}

/** Names of the script of a report. Caches in the script are new with every call. */
export function loadReport(names, globals) {
  return run(reportScript(), "report/browser/assets/", names, globals);
}

/** Names of a module of the workbench; what it imports from others is among the globals. */
export function loadModule(name, names, globals) {
  const path = `ui/assets/${name}.js`;
  const code = readSource(path).replace(/^import .*$/gm, "").replace(/^export /gm, "");
  return run(code, path, names, globals);
}
