"""Errors in plans: each has its line, its key and a hint; and all of them are found at once."""

from pathlib import Path
from typing import NamedTuple

import pytest

from auepora_eval.errors import PlanError
from auepora_eval.plan.prepare import plan_problems, read_plan

GOOD = "dataset: data.jsonl\noutputs: answers.jsonl\n"
ASKED = "dataset: data.jsonl\n"
JUDGED = "metrics:\n- judge_metric:\n    <<: {name: mine, prompt: Good?}\n"


class Row(NamedTuple):
    """A plan with one error, its line and key, and a part of the message."""

    text: str
    line: int | None
    key: str
    message: str
    why: str


ROWS = [
    # top
    Row(GOOD + "metrcs: [recall@5]", 3, "metrcs", "unknown key; did you mean 'metrics'?", "misspelt key"),
    Row(GOOD + "banana: 1", 3, "banana", "unknown key; there are version, name,", "key far from all"),
    Row(GOOD + "version: 2", 3, "version", "reads plans of version 1, not 2", "later version"),
    Row(GOOD + 'version: "1"', 3, "version", "an integer, not the text '1'; leave out the quotes", "version as text"),
    Row(GOOD + "version: yes", 3, "version", "not true", "true is no version, though it equals 1"),
    Row(GOOD + "name: no", 3, "name", "YAML reads a bare no as false; put it in quotes: 'no'", "name that is false"),
    Row(GOOD + "name: On", 3, "name", "YAML reads a bare On as true; put it in quotes: 'On'", "name that is true"),
    Row(GOOD + "name: 007", 3, "name", "must be a text, not the number 7; put it in quotes: '007'", "name of digits"),
    Row(GOOD + "name: ' '", 3, "name", "is an empty text", "blank name"),
    Row(GOOD + 'name: "a\\nb"', 3, "name", "one line that can be printed", "name of two lines"),
    Row(GOOD + "name: [a]", 3, "name", "must be a text, not a list", "list as name"),
    Row(GOOD + "report: {a: 1}", 3, "report", "must be a text", "report that is no path"),
    Row(GOOD + "report: report.pdf", 3, "report", "a report is a page", "report of another kind"),
    # resources
    Row(GOOD + "resources: [a]", 3, "resources", "must be a mapping, not a list", "list of resources"),
    Row(GOOD + "resources: {judge: gpt}", 3, "resources.judge", "must say what kind it is", "a bare name as judge"),
    Row(GOOD + "resources: {judge: {opnai: m}}", 3, "resources.judge.opnai", "did you mean 'openai'?", "misspelt kind"),
    Row(GOOD + "resources: {judge: {}}", 3, "resources.judge", "needs exactly one of openai, python, recorded,", "no kind"),
    Row(GOOD + "resources: {judge: {openai: m, recorded: r}}", 3, "resources.judge", "there are 'openai' and 'recorded'", "two kinds"),
    Row(GOOD + "resources: {a b: {openai: m}}", 3, "resources.a b", "made of letters, digits", "blank in a name"),
    Row(GOOD + "resources: {judge: {openai: m, args: {a: 1}}}", 3, "resources.judge.args", "goes with 'python' alone", "args of an endpoint"),
    Row(GOOD + "resources: {judge: {openai: {modle: m}}}", 3, "resources.judge.openai.modle", "did you mean 'model'?", "misspelt model"),
    Row(GOOD + "resources: {judge: {openai: {seed: 1}}}", 3, "resources.judge.openai.model", "is missing", "no model"),
    Row(GOOD + "resources: {judge: {openai: {model: m, base_url: localhost}}}", 3, "resources.judge.openai.base_url", "must begin with http", "address without scheme"),
    Row(GOOD + "resources: {judge: {openai: {model: m, base_url: 'http://${NO_SUCH_HOST}'}}}", 3, "resources.judge.openai.base_url", "NO_SUCH_HOST is not set", "variable that is not set"),
    Row(GOOD + "resources: {judge: {openai: {model: m, temperature: hot}}}", 3, "resources.judge.openai.temperature", "must be a number >= 0 or null, not the text 'hot'", "temperature as text"),
    Row(GOOD + "resources: {judge: {openai: {model: m, schema: xml}}}", 3, "resources.judge.openai.schema", "must be one of auto, json_schema, json_object, none; not", "unknown form of answers"),
    Row(GOOD + "resources: {judge: {openai: {model: m, logprobs: 5}}}", 3, "resources.judge.openai.logprobs", "must be true or false, not the number 5", "logprobs as number"),
    Row(GOOD + "resources: {judge: {openai: {model: m, headers: {A: 1}}}}", 3, "resources.judge.openai.headers.A", "must be a text", "number as header"),
    Row(GOOD + "resources: {judge: {openai: {model: m, api_key: geheim1}}}", 3, "resources.judge.openai.api_key", "write api_key_env: OPENAI_API_KEY", "key written out"),
    Row(GOOD + "resources: {judge: {openai: {model: m, api_key_env: a-b}}}", 3, "resources.judge.openai.api_key_env", "the name of a variable", "no name of a variable"),
    Row(GOOD + "resources: {judge: {python: my_app}}", 3, "resources.judge.python", "must be 'module:name'", "module alone"),
    Row(GOOD + "resources: {judge: {recorded: 5}}", 3, "resources.judge.recorded", "must be a text", "number as path"),
    Row(GOOD + "resources: {a: {openai: m}, b: {openai: n}, p: {panel: 5}}", 3, "resources.p.panel", "must be a mapping of keys, not the number 5", "number as panel"),
    Row(GOOD + "resources: {a: {openai: m}, b: {openai: n}, p: {panel: {judges: a}}}", 3, "resources.p.panel.judges", "must be a list of non-empty strings, not", "one judge, no list"),
    Row(GOOD + "resources: {a: {openai: m}, b: {openai: n}, p: {panel: {vote: mean}}}", 3, "resources.p.panel.judges", "is missing; it lists the names of two judges", "panel without judges"),
    Row(GOOD + "resources: {a: {openai: m}, b: {openai: n}, p: {panel: [a]}}", 3, "resources.p.panel.judges", "must name two different judges or more, not a", "panel of one"),
    Row(GOOD + "resources: {a: {openai: m}, b: {openai: n}, p: {panel: [a, a]}}", 3, "resources.p.panel.judges", "must name two different judges or more, not a, a", "one judge twice"),
    Row(GOOD + "resources: {a: {openai: m}, b: {openai: n}, p: {panel: {judges: [a, x]}}}", 3, "resources.p.panel.judges[1]", "there is no resource 'x'; there are a, b", "unknown member"),
    Row(GOOD + "resources: {a: {openai: m}, b: {openai: n}, p: {panel: {judges: [a, p]}}}", 3, "resources.p.panel.judges[1]", "'p' is a panel, which cannot be a member", "panel in itself"),
    Row(GOOD + "resources: {a: {openai: m}, b: {openai: n}, p: {panel: {judges: [a, b], vote: meen}}}", 3, "resources.p.panel.vote", "must be one of mean, median, majority, stacked", "unknown vote"),
    Row(GOOD + "resources: {a: {openai: m}, b: {openai: n}, p: {panel: {judges: [a, b], vote: stacked}}}", 3, "resources.p.panel.weights", "is missing; 'vote: stacked' needs the file", "stacked without weights"),
    Row(GOOD + "resources: {a: {openai: m}, b: {openai: n}, p: {panel: {judges: [a, b], weights: w.json}}}", 3, "resources.p.panel.weights", "has no effect on 'vote: mean'", "weights of a mean"),
    Row(GOOD + "resources: {a: {openai: m}, b: {openai: n}, p: {panel: {judges: [a, b], wieghts: w.json}}}", 3, "resources.p.panel.wieghts", "did you mean 'weights'?", "misspelt weights"),
    Row(GOOD + "resources: {a: {openai: m}, b: {nli: n}, p: {panel: [a, b]}}", 3, "resources.p.panel.judges[1]", "'b' is no judge (nli)", "NLI model as member"),
    Row(GOOD + "resources: {a: {openai: m}, b: {openai_embeddings: n}, p: {panel: [a, b]}}", 3, "resources.p.panel.judges[1]", "'b' is no judge (openai_embeddings)", "embedder as member"),
    # judge
    Row(GOOD + "judge: 5", 3, "judge", "must be a mapping of keys", "number as judge"),
    Row(GOOD + "judge: {cahce: c}", 3, "judge.cahce", "did you mean 'cache'?", "misspelt cache"),
    Row(GOOD + "judge: {cache: 5}", 3, "judge.cache", "write a path, or false", "number as cache"),
    Row(GOOD + "judge: {cache: false, cache_only: true}", 3, "judge.cache_only", "no cache to answer from", "no cache to judge from"),
    Row(GOOD + "judge: {repeats: 0}", 3, "judge.repeats", "integer >= 1", "judged never"),
    Row(GOOD + "judge: {concurrency: 0}", 3, "judge.concurrency", "integer >= 1", "nobody at once"),
    Row(GOOD + "judge: {timeout: soon}", 3, "judge.timeout", "must be a number > 0, not the text 'soon'", "timeout as text"),
    Row(GOOD + "judge: {max_calls: -1}", 3, "judge.max_calls", "integer >= 0", "calls below none"),
    Row(GOOD + "judge: {max_cost: 5}", 3, "judge.max_cost", "the cost of the judge is unknown", "a limit without prices"),
    Row(GOOD + "judge: {prices: {m: 5}}", 3, "judge.prices.m", "must be a mapping of keys, not the number 5; the keys are prompt, completion", "price as number"),
    Row(GOOD + "judge: {prices: {m: {promt: 5}}}", 3, "judge.prices.m.promt", "did you mean 'prompt'?", "misspelt price"),
    Row(GOOD + "judge: {prices: {m: {prompt: -5}}}", 3, "judge.prices.m.prompt", "a number >= 0", "price below nothing"),
    Row(GOOD + "judge: {expensive: {use: b}, budget: 30}", 3, "judge.cheap", "needs what scores all samples", "expensive judge alone"),
    Row(GOOD + "judge: {cheap: {use: a}, budget: 30}", 3, "judge.expensive", "needs the judge of the draw", "cheap judge alone"),
    Row(GOOD + "judge: {cheap: {use: a}, expensive: {use: b}}", 3, "judge.budget", "needs 'budget' (samples) or 'budget_cost' (money)", "two stages without budget"),
    Row(GOOD + "judge: {cheap: {use: a}, expensive: {use: b}, budget: 5}", 3, "judge.budget", "must be 10 or more", "budget too small"),
    Row(GOOD + "judge: {cheap: {use: a}, expensive: {use: b}, budget_cost: 5}", 3, "judge.budget_cost", "the cost of the judge is unknown", "money without prices"),
    Row(GOOD + "judge: {cheap: a, expensive: {use: b}, budget: 30}", 3, "judge.cheap", "must be a mapping or null, not the text 'a'", "cheap judge as text"),
    Row(GOOD + "judge: {cheap: {use: a, metric: mrr}, expensive: {use: b}, budget: 30}", 3, "judge.cheap", "needs exactly one of use and metric", "two cheap scores"),
    Row(GOOD + "judge: {cheap: {use: a}, expensive: {use: a}, budget: 30}", 3, "judge.cheap", "is the expensive judge, too", "one judge in both stages"),
    Row(GOOD + "judge: {cheap: {use: a}, expensive: {use: b}, budget: 30}\nresources: {b: {openai: m}}\nmetrics: [{llm_faithfulness: {critic: {use: b}}}]", 3, "judge.cheap.use", "there is no resource 'a'", "unknown cheap judge"),
    Row(GOOD + "judge: {cheap: {metric: mrr}, expensive: {use: b}, budget: 30}\nresources: {b: {openai: m}}", 3, "judge.expensive.use", "no metric of the plan uses 'b'", "expensive judge of no metric"),
    Row(GOOD + "judge: {cheap: {metric: mrrr}, expensive: {use: b}, budget: 30}\nresources: {b: {openai: m}}\nmetrics: [{llm_faithfulness: {critic: {use: b}}}]", 3, "judge.cheap.metric", "unknown metric 'mrrr'", "unknown cheap metric"),
    Row(GOOD + "judge: {cheap: {metric: mrr}, expensive: {use: b}, budget: 30, stop: {against: x}}", 3, "judge.stop", "cannot stop early", "two stages and early stop"),
    # data
    Row("datset: d\noutputs: a", 1, "datset", "did you mean 'dataset'?", "misspelt dataset"),
    Row(ASKED + "output: a", 2, "output", "did you mean 'outputs'?", "misspelt outputs"),
    Row(ASKED + "system: {http: {ur: 'http://x'}}", 2, "system.http.ur", "did you mean 'url'?", "misspelt address"),
    Row("outputs: a.jsonl", None, "", "'dataset' is missing; it names the samples", "no dataset"),
    Row("dataset:\noutputs: a.jsonl", 1, "dataset", "'dataset' is missing", "dataset without a value"),
    Row("dataset: 5\noutputs: a.jsonl", 1, "dataset", "must be a path, or {format: path}", "number as dataset"),
    Row("dataset: ''\noutputs: a.jsonl", 1, "dataset", "is an empty text", "empty path"),
    Row("dataset: {josnl: d}\noutputs: a", 1, "dataset.josnl", "did you mean 'jsonl'?", "misspelt format"),
    Row("dataset: {sheets: d}\noutputs: a", 1, "dataset.sheets", "the formats are auto, beir,", "format nobody reads"),
    Row("dataset: {trec_rag: d}\noutputs: a", 1, "dataset.trec_rag", "has no samples", "format of outputs alone"),
    Row("dataset: d\noutputs: {golden: a}", 2, "outputs.golden", "has no outputs", "format of samples alone"),
    Row("dataset: {path: d, format: jsonl}\noutputs: a", 1, "dataset.path", "the format is the key", "path and format"),
    Row("dataset: {jsonl: d, trec: e}\noutputs: a", 1, "dataset", "there is 'jsonl' and 'trec'", "two formats"),
    Row("dataset: {corpus: c}\noutputs: a", 1, "dataset", "there is none", "a corpus alone"),
    Row("dataset: {jsonl: 5}\noutputs: a", 1, "dataset.jsonl", "put it in quotes: '5'", "number as path"),
    Row("dataset: {jsonl: d, corpus: []}\noutputs: a", 1, "dataset.corpus", "must be a text", "list as corpus"),
    Row("dataset: {jsonl: d, nuggets: 5}\noutputs: a", 1, "dataset.nuggets", "put it in quotes: '5'", "number as nuggets"),
    Row("dataset: d\noutputs: {jsonl: a, nuggets: n}", 2, "outputs.nuggets", "unknown key", "nuggets of outputs"),
    Row("dataset: {jsonl: d, config: {a: 1}}\noutputs: a", 1, "dataset.config", "unknown key", "config of a dataset"),
    Row("dataset: '${DATA}/d'\noutputs: a", 1, "dataset", "variables are not read in paths", "variable in a path"),
    Row('dataset: "d\\0"\noutputs: a', 1, "dataset", "null character", "null character in a path"),
    Row(ASKED + "outputs: {jsonl: a, config: 5}", 2, "outputs.config", "must be a mapping", "config that is none"),
    # outputs or system
    Row(ASKED, None, "", "neither 'outputs' (saved answers) nor 'system'", "nothing to evaluate"),
    Row(GOOD + "system: {python: 'a:b'}", 3, "system", "there are 'outputs' as well", "both to evaluate"),
    Row(ASKED + "system: my_app:build", 2, "system", "what kind it is: {python: my_app:build}", "bare import path"),
    Row(ASKED + "system: 'http://x/ask'", 2, "system", "{http: {url: http://x/ask}}", "bare address"),
    Row(ASKED + "system: [a]", 2, "system", "must be a mapping of keys, not a list", "list as system"),
    Row(ASKED + "system: {}", 2, "system", "exactly one of python, http and command; there is none", "empty system"),
    Row(ASKED + "system: {pyhton: 'a:b'}", 2, "system.pyhton", "did you mean 'python'?", "misspelt kind"),
    Row(ASKED + "system: {python: 'a:b', http: 'http://x'}", 2, "system", "'python' and 'http'", "two kinds"),
    Row(ASKED + "system: {python: my_app.rag}", 2, "system.python", "must be 'module:name'", "no name"),
    Row(ASKED + "system: {python: my_app/rag.py}", 2, "system.python", "must be 'module:name'", "a file"),
    Row(ASKED + "system: {python: 'a:b', args: [1]}", 2, "system.args", "must be a mapping", "list of arguments"),
    Row(ASKED + "system: {command: x, args: {a: 1}}", 2, "system.args", "goes with 'python' alone", "args of a command"),
    Row(ASKED + "system: {http: {method: GET}}", 2, "system.http.url", "is missing", "no address"),
    Row(ASKED + "system: {http: 'localhost:8000'}", 2, "system.http.url", "must begin with http://", "no scheme"),
    Row(ASKED + "system: {http: {url: 'ftp://x/y'}}", 2, "system.http.url", "must begin with http://", "ftp"),
    Row(ASKED + "system: {http: {url: 'http://x:port'}}", 2, "system.http.url", "name a host", "port that is no number"),
    Row(ASKED + "system: {http: {url: 'http://x', verb: GET}}", 2, "system.http.verb", "unknown key", "unknown in http"),
    Row(ASKED + "system: {http: {url: 'http://x', method: FETCH}}", 2, "system.http.method", "POST, GET", "method"),
    Row(ASKED + "system: {http: {url: 'http://x', headers: {N: 5}}}", 2, "system.http.headers.N", "'5'", "number header"),
    Row(
        ASKED + 'system: {http: {url: "http://x", headers: {N: "a\\nb"}}}', 2, "system.http.headers.N",
        "cannot hold a line break", "header with a line break",
    ),
    Row(ASKED + "system: {http: {url: 'http://x', response: a.b}}", 2, "system.http.response", "a mapping", "one path"),
    Row(ASKED + "system: {command: 'a \"b'}", 2, "system.command", "no closing quotation", "open quote"),
    Row(ASKED + "system: {command: []}", 2, "system.command", "is missing; write the command", "empty command"),
    Row(ASKED + "system: {command: {cwd: .}}", 2, "system.command.run", "is missing", "command without words"),
    Row(ASKED + "system: {command: [x, 5]}", 2, "system.command[1]", "put it in quotes: '5'", "number as word"),
    Row(ASKED + "system: {command: 'x --k ${K}'}", 2, "system.command[2]", "variables are not read", "variable as word"),
    Row(ASKED + "system: {command: 5}", 2, "system.command", "a text or a list of words", "number as command"),
    Row(ASKED + "system: {command: {run: x, cwd: nowhere}}", 2, "system.command.cwd", "/nowhere", "no cwd"),
    Row(ASKED + "system: {command: {run: x, env: {A: 1}}}", 2, "system.command.env.A", "in quotes: '1'", "number in env"),
    Row(ASKED + "system: {command: {runs: x}}", 2, "system.command.runs", "did you mean 'run'?", "misspelt run"),
    # conventions, metrics, slices
    Row(GOOD + "conventions: terc", 3, "conventions", "unknown conventions 'terc'; did you mean 'trec'?", "preset"),
    Row(GOOD + "conventions: 5", 3, "conventions", "must be the name of a preset", "number as preset"),
    Row(GOOD + "conventions: {nam: trec}", 3, "conventions.nam", "did you mean 'name'?", "misspelt choice"),
    Row(GOOD + "conventions: {ap: half}", 3, "conventions.ap", "choose one of: hits, capped, gold", "unknown choice"),
    Row(GOOD + "conventions: {ap: [gold]}", 3, "conventions.ap", "value for the convention 'ap'", "list as choice"),
    Row(GOOD + "conventions: {depth: 0}", 3, "conventions.depth", "depth must be an integer >= 1, not 0", "depth of nothing"),
    Row(GOOD + "metrics: recall@5", 3, "metrics", "must be a list, not the text 'recall@5'; write [", "one metric"),
    Row(GOOD + "metrics: []", 3, "metrics", "is an empty list", "no metric"),
    Row(GOOD + "metrics:\n- recall@5\n- recal@5", 5, "metrics[1]", "unknown metric 'recal'; did you mean", "metric"),
    Row(GOOD + "metrics: [recall]", 3, "metrics[0]", "needs its option 'k': write 'recall@5'", "no cut-off"),
    Row(GOOD + "metrics: [recall@0]", 3, "metrics[0]", "k must be an integer >= 1", "cut-off 0"),
    Row(GOOD + "metrics: [{map: {kk: 1}}]", 3, "metrics[0]", "no option 'kk'; did you mean 'k'?", "unknown option"),
    Row(GOOD + JUDGED + "    inputs:\n    - question\n    - anwser", 8, "metrics[0].judge_metric.inputs[1]", "no input 'anwser'; did you mean 'answer'?", "unknown input"),
    Row(GOOD + JUDGED + "    scale:\n      good: 1\n      poor:", 8, "metrics[0].judge_metric.scale.poor", "the class 'poor' has no value", "class without a value"),
    Row(GOOD + JUDGED + "    target: truth", 6, "metrics[0].judge_metric.target", "there is no target 'truth'", "unknown target"),
    Row(GOOD + JUDGED.replace("Good?", "'Good {{answr}}?'"), 5, "metrics[0].judge_metric.prompt", "nothing goes into the slot {{answr}}; did you mean 'answer'?", "unknown slot"),
    Row(GOOD + JUDGED.replace("Good?", "'Good {{answer}}?'"), 5, "metrics[0].judge_metric.prompt", "not {{question}}", "slot of one input alone"),
    Row(GOOD + JUDGED.replace("name: mine, ", ""), 4, "metrics[0].judge_metric.name", "is missing", "judge metric without a name"),
    Row(GOOD + JUDGED + "    examples:\n    - {question: a, answer: b, score: 7}", 7, "metrics[0].judge_metric.examples[0].score", "7 is not on the scale", "example off the scale"),
    Row(GOOD + JUDGED + "    criteria:\n      polite:", 7, "metrics[0].judge_metric.criteria.polite", "describe it in a text", "criterion without description"),
    Row(GOOD + JUDGED + "    promt: x", 6, "metrics[0]", "did you mean 'prompt'?", "misspelt option of a judge metric"),
    Row(GOOD + JUDGED + "    rationale: 5", 6, "metrics[0]", "must be true or false, not 5", "wrong type of an option"),
    Row(GOOD + "metrics:\n- judge_metric: {file: no.yaml}", 4, "metrics[0].judge_metric.file", "no.yaml cannot be read", "missing file of a metric"),
    Row(GOOD + "metrics: [{map: 5}]", 3, "metrics[0]", "must be a mapping, not 5", "options that are a number"),
    Row(GOOD + "metrics: [{name: recall@5}]", 3, "metrics[0]", "write the metric's name as the key", "name as key"),
    Row(GOOD + "metrics:\n- map:\n  k: 5", 4, "metrics[0]", "indented far enough?", "options beside the name"),
    Row(GOOD + "metrics: [5]", 3, "metrics[0]", "not the number 5", "number as metric"),
    Row(GOOD + "metrics: [map, map]", 3, "metrics[1]", "'map' is already metrics[0]", "the same twice"),
    Row(GOOD + "metrics: [recall@5]\nprimary: [recal@5]", 4, "primary[0]", "not among the metrics; did you", "primary"),
    Row(GOOD + "metrics: [map]\nprimary: [map, map]", 4, "primary[1]", "named twice", "primary twice"),
    Row(GOOD + "primary: [recal@5]", 3, "primary[0]", "unknown metric", "primary without metrics"),
    Row(GOOD + "slices: labels.lang", 3, "slices", "must be a list", "one slice"),
    Row(GOOD + "slices: [lang]", 3, "slices[0]", "write 'labels.<key>'", "slice without its side"),
    Row(GOOD + "slices: [labels.a, labels.a]", 3, "slices[1]", "two slices are called", "slice twice"),
    Row(GOOD + "slices: [5]", 3, "slices[0]", "a slice is a path", "number as slice"),
    # run, scoring, store
    Row(GOOD + "run: 5", 3, "run", "must be a mapping of keys, not the number 5", "number as run"),
    Row(GOOD + "run: []", 3, "run", "not a list", "empty list as run"),
    Row(GOOD + "scoring: no", 3, "scoring", "not false", "false as scoring"),
    Row(GOOD + "run:\n  top_k: 5\n  concurency: 8", 5, "run.concurency", "did you mean 'concurrency'?", "misspelt in run"),
    Row(GOOD + "run: {concurrency: '8'}", 3, "run.concurrency", "not the text '8'; leave out the quotes", "quoted"),
    Row(GOOD + "run: {top_k: 0}", 3, "run.top_k", "integer >= 1, not the number 0", "nothing asked for"),
    Row(GOOD + "run: {top_k: 2.5}", 3, "run.top_k", "an integer", "half a document"),
    Row(GOOD + "run: {repeats: true}", 3, "run.repeats", "not true", "true is no number"),
    Row(GOOD + "run: {timeout: 0}", 3, "run.timeout", "must be a number > 0 or null, not the number 0", "no time"),
    Row(GOOD + "run: {timeout: -1}", 3, "run.timeout", "> 0 or null, not the number -1", "negative time"),
    Row(GOOD + "run: {timeout: 30s}", 3, "run.timeout", "not the text '30s'; write the bare number", "time with its unit"),
    Row(GOOD + "run: {retries: -1}", 3, "run.retries", "integer >= 0", "negative retries"),
    Row(GOOD + "run: {backoff: no}", 3, "run.backoff", ">= 0, not false", "false backoff"),
    Row(GOOD + "run: {max_failures: 10%}", 3, "run.max_failures", "integer", "share of failures"),
    Row(GOOD + "scoring: {executor: threads}", 3, "scoring.executor", "must be one of serial, processes, ray; not", "executor"),
    Row(GOOD + "scoring: {address: auto}", 3, "scoring.address", "goes with 'executor: ray'", "address of nobody"),
    Row(GOOD + "scoring: {executor: ray, address: 7}", 3, "scoring.address", "must be", "an address that is a number"),
    Row(GOOD + "scoring: {workers: 2}", 3, "scoring.workers", "goes with 'executor: processes'", "workers of one"),
    Row(GOOD + "scoring: {batch_size: 0}", 3, "scoring.batch_size", "integer >= 1", "empty batches"),
    Row(GOOD + "store: 5", 3, "store", "must be a text", "number as store"),
    Row(GOOD + "store: ':memory:'", 3, "store", "would be gone with the process", "store in memory"),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.why)
def test_error_has_line_and_key(row: Row, tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(row.text + "\n", encoding="utf-8")
    with pytest.raises(PlanError) as raised:
        read_plan(path)
    error = raised.value
    assert (error.line, error.key) == (row.line, row.key)
    assert row.message in error.problem
    where = f"{path}:{row.line}: " if row.line else f"{path}: "
    assert str(error).startswith(where + (f"{row.key}: " if row.key else ""))
    assert [str(one) for one in plan_problems(path)] == [str(error)], "one mistake is one problem"


def test_all_errors_are_found_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(
        "nam: x\ndataset: {josnl: d}\nsystem: {command: ls}\nmetrics: [recal@5, recall@0]\nrun: {top_k: 0, tiemout: 1}\n"
    )
    found = plan_problems(path)
    assert [getattr(one, "key", None) for one in found] == [
        "nam", "dataset.josnl", "metrics[0]", "metrics[1]", "run.tiemout", "run.top_k",
    ]  # fmt: skip
    with pytest.raises(PlanError, match="nam: unknown key"):
        read_plan(path)


def test_all_errors_of_a_section_are_found(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(
        ASKED + "system:\n  http:\n    method: FETCH\n    headers: {A: 1, B: x, C: [2]}\n    response: 5\n"
        "judge:\n  timeout: 1m\n  prices:\n    m: {prompt: -1, completion: x}\n    n: {completion: 1}\n    o: 5\n"
    )
    assert [(getattr(one, "line", None), getattr(one, "key", None)) for one in plan_problems(path)] == [
        (3, "system.http.url"), (4, "system.http.method"), (5, "system.http.headers.A"), (5, "system.http.headers.C"),
        (6, "system.http.response"), (8, "judge.timeout"), (10, "judge.prices.m.prompt"),
        (10, "judge.prices.m.completion"), (11, "judge.prices.n.prompt"), (12, "judge.prices.o"),
    ]  # fmt: skip


def test_valid_plan_has_no_problems(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(GOOD)
    assert plan_problems(path) == []
