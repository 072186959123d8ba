// The page: what is chosen, searched and filtered lies in the address, so that a reload keeps it.

const board = JSON.parse(document.getElementById("data").textContent);
const place = Object.fromEntries(["bar", "main", "help", "foot"].map((id) => [id, document.getElementById(id)]));
const wide = matchMedia("(min-width: 75rem)");
const read = new Map(); // runs that were looked at, by id
const shown = { run: null, graph: null, timeline: null };
let at = fromAddress();

function fromAddress() {
  const said = new URLSearchParams(location.hash.slice(1));
  const known = board.runs.filter((card) => !card.error).map((card) => card.run);
  const only = board.runs.length === 1 ? known[0] : undefined;
  return {
    run: known.includes(said.get("run")) ? said.get("run") : only,
    view: said.get("view") === "timeline" ? "timeline" : "graph",
    ticket: said.get("ticket"), number: null, query: said.get("q") ?? "", wanted: new Set((said.get("show") ?? "").split(",").filter(Boolean)),
  };
}

function toAddress() {
  const parts = { run: board.runs.length > 1 ? at.run : null, view: at.view === "graph" ? null : at.view, ticket: at.ticket, q: at.query, show: [...at.wanted].join(",") };
  const kept = Object.entries(parts).filter(([, value]) => value);
  history.replaceState(null, "", `#${new URLSearchParams(kept)}`);
}

// --- building -----------------------------------------------------------------------------------

function runNamed(name) {
  if (!read.has(name)) read.set(name, readRun(board.runs.find((card) => card.run === name), board.made_at));
  return read.get(name);
}

function show() {
  const run = at.run ? runNamed(at.run) : null;
  if (at.ticket && !run?.tickets.has(at.ticket)) at.ticket = null;
  Object.assign(shown, { run, graph: run && new Graph(run, choose), timeline: run && new Timeline(run, choose) });
  place.bar.replaceChildren(...bar());
  place.main.replaceChildren(...(run ? runPage(run) : allRuns(board, open)));
  place.foot.replaceChildren(`${board.repository}, as of `, moment(board.made_at));
  if (run) draw();
  narrow();
  choose(at.ticket, at.number);
  shown.graph?.buttons.get(at.ticket)?.scrollIntoView({ block: "center" });
}

function bar() {
  const names = board.runs.filter((card) => !card.error).map((card) => card.run);
  const select = h("select", { "aria-label": "Run", onchange: (event) => open(event.target.value || undefined) },
    h("option", { value: "" }, "All runs"), names.map((name) => h("option", { value: name, selected: name === at.run }, name)));
  const search = h("input", { id: "search", type: "search", placeholder: at.run ? "Search tickets, files, workers" : "Search runs", "aria-label": "Search", autocomplete: "off", spellcheck: "false", oninput: (event) => search_(event.target.value) });
  search.value = at.query;
  return [
    h("div", { class: "where" }, bdi(board.repository, { class: "repo" }), h("span", { class: "sep" }, "/"), board.runs.length > 1 ? select : h("strong", {}, bdi(board.runs[0]?.run ?? "no runs"))),
    board.reload_seconds > 0 && h("span", { class: "live", title: `Reads itself again every ${board.reload_seconds} seconds` }, "live"),
    h("div", { class: "search" }, search, h("kbd", {}, "/")),
    h("button", { class: "tool", id: "theme", "aria-label": "Light or dark", title: "Light or dark", onclick: theme }, "◐"),
    h("button", { class: "tool keys", "aria-label": "Keys", title: "Keys", onclick: help }, "?"),
  ].filter(Boolean);
}

function runPage(run) {
  const tab = (view, text) => h("button", { role: "tab", id: `tab-${view}`, "aria-controls": view, "aria-selected": "false", onclick: () => look(view) }, text);
  const panel = (view, content) => h("div", { class: "panel", id: view, role: "tabpanel", "aria-labelledby": `tab-${view}`, hidden: true }, content);
  return [
    h("div", { class: "glance" }, glance(run, board.at), h("div", { class: "chips" }, chips(run))),
    h("div", { class: "body" },
      h("div", { id: "views" }, h("div", { class: "tabs", role: "tablist" }, tab("graph", "Graph"), tab("timeline", "Timeline")), panel("graph", shown.graph.element), panel("timeline", shown.timeline.element)),
      h("aside", { class: "side", id: "side", "aria-label": "Details" })),
  ];
}

function chips(run) {
  const chip = (name, kind, count, text) =>
    h("button", { class: `chip k-${kind}`, data: { chip: name }, "aria-pressed": "false", onclick: () => toggle(name) },
      icon(kind), h("b", {}, FIGURE.format(count)), h("span", {}, text));
  const states = [...countStates(run)].filter(([, count]) => count > 0).map(([state, count]) => chip(state, state, count, said(state)));
  const tickets = [...run.tickets.values()];
  const traits = Object.entries(TRAITS).map(([name, { kind, has }]) => [name, kind, tickets.filter(has).length]).filter(([, , count]) => count > 0);
  return [...states, ...traits.map(([name, kind, count]) => chip(name, kind, count, name)),
    h("button", { class: "clear", hidden: true, onclick: clear }, "Show all"), h("span", { class: "found", role: "status" })];
}

/** Lay the view out that is seen, for the room that it has. */
function draw() {
  for (const view of ["graph", "timeline"]) {
    const [seen, tab] = [view === at.view, document.getElementById(`tab-${view}`)];
    document.getElementById(view).hidden = !seen;
    tab.setAttribute("aria-selected", String(seen));
    tab.tabIndex = seen ? 0 : -1;
  }
  shown[at.view].draw(document.getElementById("views").clientWidth);
}

// --- what one can do ----------------------------------------------------------------------------

function open(name, ticket = null) {
  Object.assign(at, { run: name, ticket, query: "", wanted: new Set() });
  show();
  scrollTo(0, 0);
}

function look(view) {
  at.view = view;
  draw();
  choose(at.ticket, at.number);
}

/** Show a ticket beside the view (on a small screen above it), or the run when there is none. */
function choose(key, number = null) {
  if (!shown.run) return toAddress();
  const other = at.ticket !== (key ?? null);
  Object.assign(at, { ticket: key ?? null, number });
  const side = document.getElementById("side");
  const ticket = shown.run.tickets.get(key);
  side.classList.toggle("over", Boolean(ticket));
  side.replaceChildren(...(ticket ? ticketDetail(shown.run, ticket, number, choose, close) : runDetail(shown.run)));
  if (other) side.scrollTop = 0;
  shown.graph.choose(at.ticket);
  shown.timeline.choose(at.ticket);
  if (ticket && at.view === "timeline") shown.timeline.show(key);
  if (ticket && !wide.matches) side.querySelector("h2").focus({ preventScroll: true });
  return toAddress();
}

function close() {
  const key = at.ticket;
  choose(null);
  focusOn(key);
}

function focusOn(key) {
  const found = at.view === "graph" ? shown.graph.buttons.get(key) : shown.timeline.sheet.querySelector(`.label[data-key="${CSS.escape(key)}"]`);
  found?.focus({ preventScroll: true });
  found?.scrollIntoView({ block: "nearest" });
}

function search_(query) {
  at.query = query;
  narrow();
  toAddress();
}

function toggle(name) {
  if (!at.wanted.delete(name)) at.wanted.add(name);
  narrow();
  toAddress();
}

function clear() {
  Object.assign(at, { query: "", wanted: new Set() });
  document.getElementById("search").value = "";
  narrow();
  toAddress();
}

/** Apply search and filters. */
function narrow() {
  if (!shown.run) {
    const query = at.query.toLowerCase();
    for (const card of place.main.querySelectorAll(".run")) card.classList.toggle("off", !card.textContent.toLowerCase().includes(query));
    return;
  }
  const all = !at.query.trim() && !at.wanted.size;
  const found = all ? null : matching(shown.run, at.query, at.wanted);
  shown.graph.filter(found);
  shown.timeline.filter(found);
  for (const chip of place.main.querySelectorAll(".chip")) chip.setAttribute("aria-pressed", String(at.wanted.has(chip.dataset.chip)));
  place.main.querySelector(".clear").hidden = all;
  place.main.querySelector(".found").textContent = all ? "" : `${found.size} of ${plural(shown.run.tickets.size, "ticket")}`;
}

/** The first ticket that matches. */
function first() {
  return at.view === "graph" ? shown.graph.order()[0] : shown.timeline.shown[0]?.key;
}

/** Choose the ticket an arrow leads to. */
function step(dx, dy) {
  const { graph, timeline } = shown;
  const seen = at.view === "graph" ? graph : timeline;
  const here = document.activeElement?.closest?.("[data-key]")?.dataset.key ?? at.ticket;
  const next = here === null || here === undefined ? first() : seen === graph ? graph.beside(here, dx, dy) : timeline.beside(here, dx + dy);
  if (next === null || next === undefined) return;
  if (wide.matches || at.view === "timeline") choose(next);
  focusOn(next);
}

function theme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
  paint(now === "dark" ? "light" : "dark");
}

function paint(name) {
  document.documentElement.dataset.theme = name;
  sessionStorage.setItem("theme", name);
}

function help() {
  const keys = [["/", "search"], ["g t", "graph, timeline"], ["← ↑ ↓ →", "from ticket to ticket"], ["Enter", "open a ticket"], ["c", "copy the command that shows the newest attempt"], ["Esc", "close, then show all"], ["?", "these keys"]];
  place.help.replaceChildren(h("h2", {}, "Keys", h("button", { class: "close", "aria-label": "Close", onclick: () => place.help.close() }, "×")),
    h("dl", {}, keys.map(([key, does]) => [h("dt", {}, key.split(" ").map((one) => [h("kbd", {}, one), " "])), h("dd", {}, does)])));
  place.help.showModal();
}

// --- keys, size, reload -------------------------------------------------------------------------

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const KEYS = {
  "/": () => document.getElementById("search").select(),
  "?": help,
  g: () => shown.run && look("graph"),
  t: () => shown.run && look("timeline"),
  c: () => {
    const ticket = shown.run?.tickets.get(at.ticket);
    const made = (ticket?.attempts.at(-1) ?? ticket)?.commands[0];
    if (made) copy(made);
  },
  Escape: () => (at.ticket ? close() : clear()),
};

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || place.help.open) return;
  const search = document.getElementById("search");
  if (event.target === search) {
    if (event.key === "Escape") clear();
    if (!["Escape", "Enter", "ArrowDown"].includes(event.key)) return;
    search.blur();
    if (event.key !== "Escape" && shown.run) focusOn(first());
    event.preventDefault();
    return;
  }
  if (event.target.closest("select, [role=tablist]") && event.key.startsWith("Arrow")) {
    if (event.target.role === "tab") look(at.view === "graph" ? "timeline" : "graph");
    return;
  }
  const inSide = event.target.closest("#side");
  if (ARROWS[event.key] && shown.run && !inSide) step(...ARROWS[event.key]);
  else if (KEYS[event.key]) KEYS[event.key]();
  else return;
  event.preventDefault();
});

addEventListener("hashchange", () => {
  at = fromAddress();
  show();
});
new ResizeObserver(() => shown.run && draw()).observe(place.main);
const PAPER = 700; // pixels across that A4 and Letter have; a page is not told which
addEventListener("beforeprint", () => {
  if (!shown.run) return;
  for (const view of ["graph", "timeline"]) shown[view].draw(PAPER);
  shown.timeline.fill(true);
});
addEventListener("afterprint", () => shown.run && draw());
if (board.reload_seconds) {
  setInterval(() => {
    const busy = document.hidden || place.help.open || document.activeElement?.id === "search" || !getSelection().isCollapsed;
    if (!busy) location.reload();
  }, board.reload_seconds * 1000);
}
if (sessionStorage.getItem("theme")) paint(sessionStorage.getItem("theme"));
show();
