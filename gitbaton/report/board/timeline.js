// All attempts over time, a row for each ticket. Time in which nobody worked takes little room; of
// the rows only those in sight exist.

const ROW = 26;
const HEAD = 74; // the axis
const GAP = 38; // an idle stretch, however long
const MARGIN = 10; // rows beyond those in sight
const STEPS = [60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 604800].map((s) => s * 1000);

/** From time to pixels, in pieces: stretches of work in proportion, long idle ones narrow. */
function scaleOf(run, width) {
  const from = Math.min(...run.attempts.map((a) => a.from));
  const to = Math.max(from + 1000, ...run.attempts.map((a) => a.to));
  const total = to - from - run.idle.reduce((sum, [a, b]) => sum + b - a, 0);
  const long = run.idle.filter(([a, b]) => b - a > Math.max(60_000, total * 0.06));
  const busy = to - from - long.reduce((sum, [a, b]) => sum + b - a, 0);
  const rate = Math.max(width - long.length * GAP, 200) / busy;
  const pieces = [];
  let x = 0;
  let at = from;
  for (const [a, b] of [...long, [to, to]]) {
    pieces.push({ from: at, to: a, x, w: (a - at) * rate });
    x += (a - at) * rate;
    if (b > a) pieces.push({ from: a, to: b, x, w: GAP, gap: true });
    x += b > a ? GAP : 0;
    at = b;
  }
  const xOf = (time) => {
    const piece = pieces.find((p) => time <= p.to) ?? pieces.at(-1);
    return piece.x + ((time - piece.from) / (piece.to - piece.from || 1)) * piece.w;
  };
  return { pieces, rate, xOf, width: x };
}

/** How many are at work, as steps [time, count]; what began and ended within one second is left out. */
function loadOf(attempts) {
  const moves = attempts.filter(({ from, until }) => until > from).flatMap(({ from, until }) => [[from, 1], [until, -1]]).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let count = 0;
  return moves.map(([time, by]) => [time, (count += by)]);
}

class Timeline {
  constructor(run, onchoose) {
    this.run = run;
    this.zoom = 1;
    this.rows = [...run.tickets.values()].filter((t) => t.attempts.length).sort((a, b) => a.attempts[0].from - b.attempts[0].from);
    this.shown = this.rows;
    this.sheet = h("div", { class: "sheet" });
    this.scroll = h("div", { class: "scroll", onscroll: () => this.fill() }, this.sheet);
    this.scroll.addEventListener("click", (event) => {
      const found = event.target.closest("[data-key]");
      if (found) onchoose(found.dataset.key, Number(found.dataset.number) || null);
    });
    const zoom = (by, label, sign) => h("button", { class: "tool", "aria-label": label, title: label, onclick: () => this.scaleBy(by) }, sign);
    this.element = h("div", {},
      h("div", { class: "legend" }, legend(), h("div", { class: "zoom" }, zoom(0.5, "Zoom out", "−"), zoom(2, "Zoom in", "+"))),
      h("div", { class: "lanes" }, this.scroll));
    if (!this.rows.length) this.element.replaceChildren(h("p", { class: "empty" }, "Nothing has been tried yet."));
  }

  scaleBy(by) {
    const middle = (this.scroll.scrollLeft + this.scroll.clientWidth / 2) / this.scale.width;
    this.zoom = Math.min(64, Math.max(1, this.zoom * by));
    this.lay();
    this.scroll.scrollLeft = middle * this.scale.width - this.scroll.clientWidth / 2;
  }

  draw(width) {
    if (!width || width === this.outer || !this.rows.length) return;
    this.outer = width;
    this.lay();
  }

  /** Everything anew: axis, idle stretches, rows. */
  lay() {
    this.label = this.outer < 560 ? 76 : 200;
    this.scale = scaleOf(this.run, (this.outer - this.label - 34) * this.zoom);
    this.sheet.style.setProperty("--label", `${this.label}px`);
    this.sheet.style.width = `${this.label + this.scale.width + 30}px`;
    this.fixed = [this.axis(), ...this.scale.pieces.filter((p) => p.gap).map((p) => this.gap(p))];
    this.filter(this.found);
  }

  axis() {
    const load = loadOf(this.run.attempts);
    const most = Math.max(1, ...load.map(([, count]) => count));
    let path = `M0 46`;
    for (const [time, count] of load) path += `H${this.scale.xOf(time).toFixed(1)}V${(46 - (count / most) * 42).toFixed(1)}`;
    const chart = svg("svg", { width: this.scale.width, height: 46, "aria-hidden": "true" }, svg("path", { class: "busy", d: `${path}V46Z` }));
    chart.style.left = `${this.label}px`;
    return h("div", { class: "axis" }, chart, this.ticks(), h("div", { class: "most" }, h("span", {}, "at work"), h("span", {}, `up to ${most}`)));
  }

  ticks() {
    const step = STEPS.find((s) => s * this.scale.rate >= 92) ?? STEPS.at(-1);
    const made = [];
    let [day, free] = ["", 0];
    for (const piece of this.scale.pieces.filter((p) => !p.gap)) {
      for (let time = piece.from; time <= piece.to; time = (Math.floor(time / step) + 1) * step) {
        const x = this.scale.xOf(time);
        const today = DAY.format(time);
        if (x < free) continue;
        made.push(h("div", { class: "tick", style: { left: `${this.label + x}px` } }, today !== day && h("b", {}, `${today} `), CLOCK.format(time)));
        free = x + (today !== day ? 96 : 52);
        day = today;
      }
    }
    return made;
  }

  gap(piece) {
    const told = `idle ${duration(piece.to - piece.from)}`;
    return h("div", { class: "gap", title: told, style: { left: `${this.label + piece.x}px`, width: `${piece.w}px` } }, h("span", {}, told));
  }

  filter(found) {
    this.found = found;
    if (!this.fixed) return;
    this.shown = found ? this.rows.filter((ticket) => found.has(ticket.key)) : this.rows;
    this.sheet.style.height = `${HEAD + this.shown.length * ROW + 12}px`;
    this.made = new Map();
    this.sheet.replaceChildren(...this.fixed);
    this.fill();
  }

  /** Make the rows that are in sight, and drop the others. */
  fill(all = false) {
    if (!this.made) return;
    const [top, high] = [this.scroll.scrollTop, this.scroll.clientHeight || innerHeight];
    const first = all ? 0 : Math.max(0, Math.floor((top - HEAD) / ROW) - MARGIN);
    const last = all ? this.shown.length : Math.min(this.shown.length, Math.ceil((top + high) / ROW) + MARGIN);
    for (const [at, row] of this.made) {
      if (at < first || at >= last) {
        row.remove();
        this.made.delete(at);
      }
    }
    for (let at = first; at < last; at += 1) {
      if (this.made.has(at)) continue;
      const row = this.row(this.shown[at], at);
      this.made.set(at, row);
      this.sheet.append(row);
    }
  }

  row(ticket, at) {
    const x = (time) => this.label + this.scale.xOf(time);
    const [first, last] = [ticket.attempts[0], ticket.attempts.at(-1)];
    const link = ticket.attempts.length > 1 && h("div", { class: "link", style: { left: `${x(first.from)}px`, width: `${x(last.to) - x(first.from)}px` } });
    return h("div", { class: ticket.key === this.chosen ? "row chosen" : "row", data: { row: ticket.key }, style: { top: `${HEAD + 4 + at * ROW}px` } },
      link, ticket.attempts.map((attempt) => this.bar(attempt, x)),
      h("button", { class: `label k-${ticket.kind}`, data: { key: ticket.key }, title: ticket.title, "aria-label": `${ticket.key} ${ticket.title}: ${said(ticket.kind)}` },
        icon(ticket.kind), bdi(ticket.key), this.label > 100 && bdi(ticket.title, { class: "title" })));
  }

  bar(attempt, x) {
    const [left, wide] = [x(attempt.from), Math.max(5, x(attempt.until) - x(attempt.from))];
    const rest = x(attempt.to) - left - wide;
    const told = `${attempt.assignment}: ${attempt.outcome}, ${duration(attempt.to - attempt.from)}`;
    const bar = h("button", {
      class: `bar k k-${attempt.kind}`, tabindex: "-1", title: told, "aria-label": told,
      data: { key: attempt.ticket, number: attempt.number }, style: { left: `${left}px`, width: `${wide}px` },
    }, wide > 20 && attempt.number > 1 && String(attempt.number));
    return [rest > 2 && h("div", { class: `rest k-${attempt.kind}`, style: { left: `${left + wide}px`, width: `${rest}px` } }), bar];
  }

  choose(key) {
    this.chosen = key;
    for (const row of this.made?.values() ?? []) row.classList.toggle("chosen", row.dataset.row === key);
  }

  /** Bring the row of a ticket into sight. */
  show(key) {
    const at = this.shown.findIndex((ticket) => ticket.key === key);
    if (at < 0 || !this.fixed) return;
    const top = at * ROW;
    const inside = top >= this.scroll.scrollTop && top + HEAD + ROW <= this.scroll.scrollTop + this.scroll.clientHeight;
    if (!inside) this.scroll.scrollTop = top - this.scroll.clientHeight / 3;
    this.fill();
  }

  /** The row before or after. */
  beside(key, by) {
    const at = this.shown.findIndex((ticket) => ticket.key === key);
    return this.shown[Math.min(this.shown.length - 1, Math.max(0, at + by))]?.key;
  }
}

function legend() {
  const known = [["succeeded", "integrated"], ["active", "under way"], ["failed", "failed"], ["conflict", "merge conflict"], ["abandoned", "abandoned"]];
  return known.map(([kind, text]) => h("span", {}, h("i", { class: `bar k k-${kind}` }), text));
}
