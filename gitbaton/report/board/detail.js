// What is beside the views: one ticket with its attempts, or the run as a whole.

function section(title, ...children) {
  return children.flat(Infinity).some(Boolean) ? [h("h3", {}, title), ...children] : [];
}

function ticketDetail(run, ticket, number, choose, close) {
  return [
    h("div", { class: "top" },
      h("span", { class: `pill k-${ticket.kind}` }, icon(ticket.kind), said(ticket.kind)),
      bdi(ticket.key, { class: "key" }),
      h("button", { class: "close", "aria-label": "Close", onclick: close }, "×")),
    h("h2", { tabindex: "-1" }, bdi(ticket.title)),
    ticket.body && h("p", { class: "text" }, bdi(ticket.body)),
    section("Criteria", ticket.criteria.length > 0 && criteria(ticket)),
    section("Needs", refs(run, ticket.needs, choose)),
    section("Needed by", refs(run, ticket.unlocks, choose)),
    section("Returned as", ticket.dispositions.map(returned)),
    section(plural(ticket.attempts.length, "attempt"), ticket.attempts.toReversed().map((attempt, at) => attemptDetail(attempt, number ? attempt.number === number : at === 0))),
    section("Ticket", ticketFacts(run, ticket)),
    ticket.commands.length > 0 && section("Commands", commands(ticket.commands)),
  ].flat(Infinity).filter(Boolean);
}

function criteria(ticket) {
  const done = ticket.state.startsWith("resolved");
  return h("ul", { class: "boxes" }, ticket.criteria.map((box) => {
    const kind = done || box.done ? "resolved" : "waiting";
    return h("li", { class: `k-${kind}` }, icon(kind, kind === "resolved" ? "done" : "open"), bdi(box.text));
  }));
}

function refs(run, keys, choose) {
  const known = keys.map((key) => run.tickets.get(key)).filter(Boolean);
  return known.length > 0 && h("div", { class: "refs" }, known.map((ticket) =>
    h("button", { class: `ref k-${ticket.kind}`, title: ticket.title, onclick: () => choose(ticket.key) }, icon(ticket.kind, said(ticket.kind)), bdi(ticket.key))));
}

function returned(disposition) {
  const by = disposition.by.length ? ` by ${disposition.by.join(", ")}` : "";
  return h("div", { class: "notice" }, h("p", {}, h("b", {}, disposition.kind), bdi(by)), h("p", {}, bdi(disposition.reason)), h("p", {}, moment(disposition.at)));
}

function ticketFacts(run, ticket) {
  const rows = pairs([
    ["section", bdi(run.card.sections[ticket.section]?.title ?? "")],
    ["may change", ticket.paths.join("  ") && h("code", {}, ticket.paths.join("  "))],
    ["own checks", ticket.checks.length > 0 && h("div", {}, ticket.checks.map((line) => h("code", {}, line)))],
  ]);
  return rows.childElementCount > 0 && rows;
}

function attemptDetail(attempt, open) {
  const details = h("details", { class: "try", open, data: { attempt: attempt.number } },
    h("summary", { class: `k-${attempt.kind}` }, icon(attempt.kind), h("b", {}, `#${attempt.number}`), h("span", {}, attempt.outcome),
      h("span", { class: "took" }, duration(attempt.to - attempt.from))));
  const fill = () => details.childElementCount < 2 && details.append(h("div", {}, attemptBody(attempt)));
  details.addEventListener("toggle", fill); // most are never opened
  if (open) fill();
  return details;
}

function attemptBody(attempt) {
  return [
    attempt.failure && attempt.kind !== "succeeded" && h("div", { class: `failure k-${attempt.kind}` }, h("code", {}, attempt.failure.code), attempt.failure.message && h("pre", {}, bdi(attempt.failure.message))),
    attempt.damaged && h("div", { class: "failure k-failed" }, h("code", {}, "unreadable receipt"), h("pre", {}, bdi(attempt.damaged))),
    attempt.conflicts.length > 0 && h("h4", {}, attempt.resolves ? `Resolves the conflict of #${attempt.resolves}` : "Conflicts in"),
    attempt.conflicts.length > 0 && h("ul", { class: "files" }, attempt.conflicts.map((path) => h("li", {}, bdi(path)))),
    attempt.checks.length > 0 && h("h4", {}, "Checks"),
    attempt.checks.map(check),
    attempt.changed > 0 && h("h4", {}, `${plural(attempt.changed, "changed file")}`),
    attempt.changed > 0 && h("ul", { class: "files" }, attempt.files.map((path) => h("li", {}, bdi(path))), attempt.changed > attempt.files.length && h("li", {}, `and ${attempt.changed - attempt.files.length} more`)),
    pairs([
      ["next", advice(attempt.advice)],
      ["worker", bdi([attempt.agent_id, attempt.session].filter(Boolean).join(" · "))],
      ["claimed", moment(attempt.claimed_at)],
      ["sealed", moment(attempt.sealed_at)],
      ["ended", moment(attempt.ended_at)],
      ["used", spent(attempt.usage)],
      ["receipt", attempt.receipt_sha256 && h("span", {}, hash(attempt.receipt_sha256), attempt.signed ? " signed" : "")],
      ["commit", hash(attempt.commit)],
      ["merge", hash(attempt.merge_commit)],
      ["base", hash(attempt.base_commit)],
      ["branch", h("code", {}, attempt.branch)],
    ]),
    attempt.commands.length > 0 && h("h4", {}, "Commands"),
    commands(attempt.commands),
  ].flat(Infinity).filter(Boolean);
}

function advice(word) {
  return word && word !== "none" ? said(word) : "";
}

function check(result) {
  const kind = result.exit_code === 0 ? "resolved" : "failed";
  const line = [icon(kind, result.exit_code === 0 ? "green" : `exit ${result.exit_code}`), h("code", {}, result.command), h("span", { class: "took" }, brief(result.duration_ms))];
  if (!result.output_tail.trim()) return h("div", { class: `check k-${kind}` }, line);
  return h("details", { class: `check k-${kind}` }, h("summary", {}, line), h("pre", {}, bdi(result.output_tail.trim())));
}

// --- the run as a whole -------------------------------------------------------------------------

function runDetail(run) {
  const { card } = run;
  const batch = card.batch;
  return [
    h("h2", { tabindex: "-1" }, batch ? "This batch" : "This run"),
    batch && section("Selection", batchFacts(batch)),
    batch && section("Gates", batch.gates.map(check)),
    batch && section("Left without a fix", batch.view.left.map((left) => h("div", { class: "notice" }, h("p", {}, h("b", {}, `${left.item}: ${left.disposition}`)), h("p", {}, bdi(left.reason))))),
    batch && section("Batches below it", batch.view.children.map((child) => h("p", {}, runLink(child.run), ` ${child.result}`))),
    section("Checks of every ticket", card.checks.length > 0 && h("ul", { class: "boxes" }, card.checks.map((line) => h("li", {}, h("code", {}, line))))),
    section("Where", pairs([
      ["branch", h("code", {}, card.branch)], ["at", hash(card.tip)], ["from", h("code", {}, card.base)],
      ["state", hash(card.commit)], ["revision", `${card.revision} of the plan, ${card.order}`], ["transitions", FIGURE.format(card.generation)],
      ["started", moment(card.created_at)], ["last moved", moment(card.as_of)], ["used", spent(card.usage)],
    ])),
    section("Commands", commands(card.commands)),
    section("Noted by workers", card.followups.map((note) => h("div", { class: "notice" }, h("p", {}, bdi(note.text)), h("p", {}, `${note.kind} of `, bdi(note.assignment))))),
    section("Warnings", card.warnings.map((text) => h("div", { class: "notice k-paused" }, h("p", {}, bdi(text))))),
  ].flat(Infinity).filter(Boolean);
}

/** Another run, or one of its assignments, where the page has it. */
function runLink(text) {
  const [, name, ticket] = /^([^/]*)(?:[/](.*)@[0-9]+)?$/.exec(text) ?? [null, text];
  if (!board.runs.some((card) => card.run === name && !card.error)) return h("code", {}, text);
  return h("button", { class: "hash", onclick: () => open(name, ticket) }, text);
}

function batchFacts(batch) {
  const { descriptor, view } = batch;
  const filters = Object.entries(descriptor.filters).filter(([, value]) => value?.length);
  return pairs([
    ["queue", h("code", {}, descriptor.queue)],
    ["revision", hash(view.queue_revision)],
    ["mode", `${descriptor.mode}, ${descriptor.membership}`],
    ["filter", filters.map(([name, value]) => `${name}: ${[value].flat().join(", ")}`).join("; ")],
    ["order", descriptor.order.join(", ")],
    ["below", descriptor.parent && runLink(descriptor.parent)],
    ["members", `${view.members}${view.pending ? `, ${view.pending} to come` : ""}`],
    ["asked by", bdi(`${descriptor.provenance.who} with ${descriptor.provenance.tool}`)],
    ["closed", view.closed],
  ]);
}
