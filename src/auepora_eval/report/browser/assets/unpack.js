// The data of the page: the list at once, texts when somebody looks at them.

const OUTCOMES = ["scored", "skipped", "system failed", "measurement failed"];
const ABSENT = 255;
const ANSWERS = ["missing", "failed", "none", "empty", "answered", "refused"];

async function bytesOf(id) {
  const text = atob(document.getElementById(id).textContent.trim());
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

async function jsonOf(id) {
  return JSON.parse(new TextDecoder().decode(await bytesOf(id)));
}

const TYPES = { u1: Uint8Array, u2: Uint16Array, f8: Float64Array };

function columnOf(packed, buffer) {
  const column = new TYPES[packed.type](buffer, packed.at, packed.count);
  if (!packed.table) return column;
  const values = new Float64Array(packed.count);
  for (let i = 0; i < packed.count; i++) values[i] = column[i] < packed.table.length ? packed.table[column[i]] : NaN;
  return values;
}

/** Everything the list needs, as typed columns. */
async function readList() {
  const [list, buffer] = await Promise.all([jsonOf("qb-list"), bytesOf("qb-columns")]);
  for (const run of list.runs) {
    for (const name of ["answers", "dropped", "hits", "seconds"]) run[name] = run[name] ? columnOf(run[name], buffer) : null;
    // The rank of the first gold document: infinite where none was returned, NaN where none is annotated.
    run.ranks = Float64Array.from(columnOf(run.ranks, buffer), (rank) => rank || (rank === 0 ? Infinity : NaN));
  }
  for (const label of list.labels) label.codes = columnOf(label.codes, buffer);
  for (const metric of list.metrics) {
    metric.runs = metric.runs.map((side) => side && {
      signature: side.signature,
      values: columnOf(side.values, buffer),
      status: columnOf(side.status, buffer),
      reasons: side.reasons ? columnOf(side.reasons, buffer) : null,
      names: side.names ?? [""],
      causes: side.causes ?? null,
      causeCodes: side.causes ? columnOf(side.cause_codes, buffer) : null,
    });
  }
  list.places = new Map(list.ids.map((id, row) => [id, row]));
  return list;
}

const MOST_BLOCKS = 48;
const unpacked = new Map();

/** A block of texts; the last ones looked at are kept. */
function blockOf(id) {
  const block = unpacked.get(id) ?? jsonOf(id);
  unpacked.delete(id);
  unpacked.set(id, block);
  if (unpacked.size > MOST_BLOCKS) unpacked.delete(unpacked.keys().next().value);
  return block;
}

/** The last of the ascending `starts` that is not beyond `number`. */
function blockNumber(starts, number) {
  let low = 0, high = starts.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (starts[middle] <= number) low = middle;
    else high = middle - 1;
  }
  return low;
}

async function readQuery(list, row) {
  const block = blockNumber(list.query_blocks, row);
  const query = (await blockOf(`qb-queries-${block}`))[row - list.query_blocks[block]];
  const wanted = new Set();
  for (const sample of query.samples) {
    for (const one of sample.gold ?? []) wanted.add(one[1]);
    for (const one of sample.others ?? []) wanted.add(one[1]);
  }
  for (const run of query.runs) {
    for (const output of run?.[1] ?? []) for (const one of output?.docs ?? []) wanted.add(one[1]);
  }
  wanted.delete(-1);
  const texts = new Map();
  const byBlock = new Map();
  for (const number of wanted) {
    const at = blockNumber(list.document_blocks, number);
    if (!byBlock.has(at)) byBlock.set(at, []);
    byBlock.get(at).push(number);
  }
  await Promise.all([...byBlock].map(async ([at, numbers]) => {
    const documents = await blockOf(`qb-documents-${at}`);
    for (const number of numbers) texts.set(number, documents[number - list.document_blocks[at]]);
  }));
  query.textOf = (number) => texts.get(number) ?? "";
  return query;
}

/** What is searched: per query its id, question and answers, in lower case. */
async function readSearched(list) {
  const { questions, answers } = await jsonOf("qb-search");
  return questions.map((question, row) =>
    [list.ids[row], question, ...answers.map((texts) => texts[row])].join("\n").toLowerCase());
}
