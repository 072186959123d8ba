// Elements, icons, and how times and figures are said. Texts are only ever set as text.

/** An element: `props` are attributes, `on...` listeners, `data` and `style` objects; no HTML. */
function h(tag, props, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, to] of Object.entries(value)) made.style.setProperty(key, to);
    else if (name === "data") Object.assign(made.dataset, value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

function svg(tag, props, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(props ?? {})) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** The shape of each state; states that people need not tell apart share one. */
const SHAPES = {
  succeeded: "resolved", complete: "resolved", accepted: "resolved", executing: "active",
  sealed: "active", blocked: "failed", unreadable: "failed", dropped: "canceled",
};

const icons = new Map(); // copying one is much cheaper than making one

function icon(kind, label) {
  if (!icons.has(kind)) icons.set(kind, svg("svg", { class: "icon", "aria-hidden": "true" }, svg("use", { href: `#s-${SHAPES[kind] ?? kind}` })));
  const made = icons.get(kind).cloneNode(true);
  if (label) {
    made.removeAttribute("aria-hidden");
    made.setAttribute("role", "img");
    made.setAttribute("aria-label", label);
  }
  return made;
}

/** Text of a plan or a worker, which must not change the direction of what is around it. */
function bdi(text, props) {
  return h("bdi", props, text);
}

const FIGURE = new Intl.NumberFormat("en");

function plural(count, noun) {
  return `${FIGURE.format(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** Milliseconds as one says them: `45s`, `12m`, `1h 05m`, `3d 4h`. */
function duration(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}h ${String(Math.floor((seconds % 3600) / 60)).padStart(2, "0")}m`;
  return `${Math.floor(seconds / 86400)}d ${Math.floor((seconds % 86400) / 3600)}h`;
}

/** How long a check took. */
function brief(ms) {
  return ms < 950 ? `${ms} ms` : ms < 59500 ? `${(ms / 1000).toFixed(1)} s` : duration(ms);
}

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const MOMENT = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });

function moment(stamp) {
  return stamp ? h("time", { datetime: stamp, title: stamp }, MOMENT.format(Date.parse(stamp))) : "";
}

/** 1234567 as `1.2M`. */
function rounded(figure) {
  return new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(figure);
}

/** Tokens and money, as far as they were told. */
function spent(usage) {
  if (!usage) return "";
  const parts = [];
  if (usage.cost_usd !== null) parts.push(`$${Number(usage.cost_usd).toFixed(2)}`);
  if (usage.input_tokens !== null) parts.push(`${rounded(usage.input_tokens)} tokens in`);
  if (usage.output_tokens !== null) parts.push(`${rounded(usage.output_tokens)} out`);
  if (usage.seconds !== null) parts.push(duration(usage.seconds * 1000));
  return parts.join(" · ");
}

function said(state) {
  return state.replaceAll("-", " ");
}

function pairs(rows) {
  const told = rows.filter(([, value]) => value);
  return h("dl", { class: "pairs" }, told.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

// --- copying ------------------------------------------------------------------------------------

let toastTimer = 0;

function toast(text) {
  const place = document.getElementById("said");
  place.textContent = text;
  place.classList.add("on");
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => place.classList.remove("on"), 1800);
}

/** Copy; where the browser refuses, select what `shown` holds instead. */
async function copy(text, shown) {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied");
  } catch {
    if (shown) getSelection().selectAllChildren(shown);
    toast(shown ? "Selected: press Ctrl+C" : "This browser does not let a page copy");
  }
}

function command(line) {
  const code = h("code", { tabindex: "0" }, line);
  const button = h("button", { "aria-label": `Copy: ${line}`, onclick: () => copy(line, code) }, "Copy");
  return h("div", { class: "copy" }, code, button);
}

function commands(list) {
  return h("div", { class: "copies" }, list.map(command));
}

function hash(oid) {
  return oid && h("button", { class: "hash", title: `${oid}: copy`, onclick: () => copy(oid) }, oid.slice(0, 12));
}
