// One run as the views need it: who waits for whom, what became of each attempt, when nobody worked.

/** States of tickets in the order in which one wants to hear of them. */
const STATES = ["failed", "active", "ready", "waiting", "resolved", "resolved-by-hand", "canceled", "dropped"];

/** What an attempt looks like: its state, and for one that is over what it came to. */
function kindOf(attempt) {
  const code = attempt.failure?.code;
  if (code === "merge-conflict") return "conflict";
  switch (attempt.state) {
    case "succeeded": return "succeeded";
    case "failed": return "failed";
    case "abandoned": return "abandoned";
    case "closed": return "canceled";
    case "unknown": case "blocked-review": return "unknown";
    case "superseded": return code ? "failed" : "superseded";
    default: return "active";
  }
}

/** What an attempt came to, in words. */
function outcomeOf(attempt, kind) {
  if (kind === "conflict") return attempt.state === "blocked-review" ? "merge conflict" : "merge conflict, resolved by a later attempt";
  return kind === "failed" && attempt.state === "superseded" ? "failed, tried again" : said(attempt.state);
}

/** The card of a run with all that is derived from it; times are in milliseconds. */
function readRun(card, madeAt) {
  const now = Date.parse(madeAt);
  const run = { card, now, tickets: new Map(), attempts: [], waits: false };
  for (const ticket of card.tickets) {
    run.tickets.set(ticket.key, { ...ticket, attempts: [], unlocks: [], kind: ticket.state, words: "" });
  }
  for (const attempt of card.attempts) run.attempts.push(readAttempt(run, attempt));
  for (const ticket of run.tickets.values()) {
    for (const need of ticket.needs) run.tickets.get(need)?.unlocks.push(ticket.key);
    const last = ticket.attempts.at(-1);
    if (last && ["conflict", "unknown"].includes(last.kind) && last.state !== "superseded" && ticket.state !== "failed") ticket.kind = last.kind;
    ticket.words = wordsOf(card, ticket);
  }
  run.idle = idleOf(run.attempts);
  return run;
}

function readAttempt(run, attempt) {
  const kind = kindOf(attempt);
  const from = Date.parse(attempt.claimed_at);
  const to = attempt.ended_at ? Date.parse(attempt.ended_at) : run.now;
  const sealed = attempt.sealed_at ? Date.parse(attempt.sealed_at) : null;
  // A sealed attempt that waits to be integrated keeps nobody busy.
  const read = { ...attempt, kind, from, to: Math.max(from, to), until: Math.max(from, sealed ?? to), outcome: outcomeOf(attempt, kind) };
  run.tickets.get(attempt.ticket)?.attempts.push(read);
  return read;
}

/** All that a search looks at, in lower case. */
function wordsOf(card, ticket) {
  const parts = [ticket.key, ticket.alias, ticket.title, card.sections[ticket.section]?.title, said(ticket.state)];
  for (const attempt of ticket.attempts) {
    parts.push(attempt.assignment, attempt.session, attempt.agent_id, attempt.outcome, attempt.failure?.code, attempt.commit, ...attempt.files);
  }
  for (const returned of ticket.dispositions) parts.push(returned.kind, returned.reason);
  return parts.filter(Boolean).join("\n").toLowerCase();
}

/** Stretches in which nobody was at work, as [from, to]. */
function idleOf(attempts) {
  const sorted = attempts.map(({ from, until }) => [from, until]).sort((a, b) => a[0] - b[0]);
  const gaps = [];
  let reached = sorted[0]?.[0];
  for (const [from, until] of sorted) {
    if (from > reached) gaps.push([reached, from]);
    reached = Math.max(reached, until);
  }
  return gaps;
}

// --- filter -------------------------------------------------------------------------------------

/** What may be asked for beside a state: a name, and which tickets are meant. */
const TRAITS = {
  retried: { kind: "superseded", has: (ticket) => ticket.attempts.length > 1 },
  conflicted: { kind: "conflict", has: (ticket) => ticket.attempts.some((a) => a.kind === "conflict") },
  abandoned: { kind: "abandoned", has: (ticket) => ticket.attempts.some((a) => a.kind === "abandoned") },
};

/** The keys that match: every word of the search, one of the states, and every trait. */
function matching(run, query, wanted) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const states = [...wanted].filter((name) => !TRAITS[name]);
  const traits = [...wanted].filter((name) => TRAITS[name]);
  const found = new Set();
  for (const ticket of run.tickets.values()) {
    if (states.length && !states.includes(ticket.state)) continue;
    if (!traits.every((name) => TRAITS[name].has(ticket))) continue;
    if (words.every((word) => ticket.words.includes(word))) found.add(ticket.key);
  }
  return found;
}

function countStates(run) {
  const counts = new Map(STATES.map((state) => [state, 0]));
  for (const ticket of run.tickets.values()) counts.set(ticket.state, counts.get(ticket.state) + 1);
  return counts;
}
