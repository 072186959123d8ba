// What is said of a run before anything else, and the list of all runs.

function progress(card) {
  const counts = card.counts;
  const parts = [
    ["resolved", counts.resolved], ["resolved-by-hand", counts.resolved_by_hand], ["active", counts.active],
    ["failed", counts.failed], ["ready", counts.ready], ["waiting", counts.waiting], ["canceled", counts.canceled],
  ].filter(([, count]) => count > 0);
  const done = counts.resolved + counts.resolved_by_hand;
  return h("div", { class: "progress", role: "img", "aria-label": `${done} of ${plural(counts.total, "ticket")} resolved` },
    parts.map(([kind, count]) => h("i", { class: `k-${kind}`, title: `${count} ${said(kind)}`, style: { flex: String(count) } })));
}

function statePill(card) {
  return h("span", { class: `pill k-${card.state}` }, icon(card.state), card.landed ? "landed" : said(card.state));
}

function doneOf(card) {
  const done = card.counts.resolved + card.counts.resolved_by_hand;
  return `${FIGURE.format(done)} of ${plural(card.counts.total, "ticket")}`;
}

/** Heading, progress and what stands in the way. */
function glance(run, at) {
  const { card } = run;
  const again = card.attempts.length - new Set(card.attempts.map((attempt) => attempt.ticket)).size;
  const fact = (value, text) => value && h("span", {}, h("b", {}, value), ` ${text}`);
  return [
    at && notice("paused", `As of state ${at.slice(0, 12)}`, "What happened later is not shown."),
    h("div", { class: "headline" }, h("h1", {}, bdi(card.run)), statePill(card), card.name && bdi(card.name, { class: "name" })),
    progress(card),
    h("div", { class: "facts" },
      h("span", {}, h("b", {}, doneOf(card)), " resolved"),
      fact(FIGURE.format(card.attempts.length), `${card.attempts.length === 1 ? "attempt" : "attempts"}${again ? `, ${again} of them ${again === 1 ? "a retry" : "retries"}` : ""}`),
      fact(run.attempts.length > 0 && duration(workOf(run)), "of work"),
      card.usage?.cost_usd && fact(`$${Number(card.usage.cost_usd).toFixed(2)}`, "spent"),
      h("span", {}, "last moved ", moment(card.as_of))),
    card.paused !== null && notice("paused", "Paused", card.paused),
    card.halt && notice("blocked", card.halt.message, card.halt.hint),
  ].filter(Boolean);
}

function notice(kind, title, text) {
  return h("div", { class: `notice k-${kind}` }, h("p", {}, h("b", {}, bdi(title))), text && h("p", {}, bdi(text)));
}

/** Time in which somebody was at work. */
function workOf(run) {
  const [from, to] = [Math.min(...run.attempts.map((a) => a.from)), Math.max(...run.attempts.map((a) => a.to))];
  return to - from - run.idle.reduce((sum, [a, b]) => sum + b - a, 0);
}

/** All runs; one that cannot be read says why. */
function allRuns(board, open) {
  if (!board.runs.length) return [h("p", { class: "empty" }, "This repository has no run yet.")];
  const names = new Set(board.runs.map((card) => card.run));
  const parentOf = (card) => card.batch?.descriptor.parent?.split("/")[0];
  const below = Map.groupBy(board.runs.toSorted((a, b) => b.as_of.localeCompare(a.as_of)), (card) => (names.has(parentOf(card)) ? parentOf(card) : ""));
  const family = (card) => h("div", { class: "family" }, card.error ? broken(card) : runCard(card, open), (below.get(card.run) ?? []).map(family));
  return [
    h("div", { class: "headline" }, h("h1", {}, "All runs"), h("span", { class: "name" }, plural(board.runs.length, "run"))),
    h("div", { class: "runs" }, (below.get("") ?? []).map(family)),
  ];
}

function runCard(card, open) {
  return h("button", { class: "run", data: { run: card.run }, onclick: () => open(card.run) },
    h("h2", {}, bdi(card.run), statePill(card)),
    card.name && bdi(card.name),
    progress(card),
    h("div", { class: "facts" }, h("span", {}, doneOf(card)), h("span", {}, plural(card.attempts.length, "attempt")),
      card.batch?.descriptor.parent && h("span", {}, "below ", h("code", {}, card.batch.descriptor.parent)), h("span", {}, moment(card.as_of))));
}

function broken(card) {
  return h("div", { class: "run", data: { run: card.run } },
    h("h2", {}, bdi(card.run), statePill(card)),
    h("p", { class: "bad" }, bdi(card.error)));
}
