// The plan as a graph. Sections follow one another down a spine; within one, a ticket stands to the
// right of what it needs.

const GUTTER = 40; // of the spine
const BAND = 38; // height of a section's heading
const AFTER = 26; // below a section

const MANY = 300; // tickets, of which only mark and key are drawn

function sizeFor(count, room) {
  if (count > MANY) return { least: 92, height: 28, x: 16, y: 6 };
  const inTwo = room >= 400 && room < 700; // a phone has one column, or titles had no room
  return { least: inTwo ? 150 : 220, height: 34, x: 24, y: 8 };
}

/** The tickets of each section that has some, in plan order. */
function sectionsOf(run) {
  const found = new Map();
  for (const ticket of run.tickets.values()) {
    if (!found.has(ticket.section)) found.set(ticket.section, []);
    found.get(ticket.section).push(ticket);
  }
  return [...found].map(([at, tickets]) => ({ ...run.card.sections[at], at, tickets, level: Math.min(...tickets.map((t) => t.level)) }));
}

/** The tickets of a section that wait for each other, and those on their own; who is first in the plan leads. */
function blocks(tickets) {
  const within = new Set(tickets.map(({ key }) => key));
  const alone = ({ needs, unlocks }) => ![...needs, ...unlocks].some((key) => within.has(key));
  if (tickets.some(({ level }) => level !== tickets[0].level)) return [tickets];
  return [...Map.groupBy(tickets, alone).values()];
}

/** Tickets by how many stand one after the other before them. */
function ranks(tickets) {
  const within = new Map(tickets.map((ticket) => [ticket.key, ticket]));
  const levels = [...new Set(tickets.map((t) => t.level))].sort((a, b) => a - b);
  const depth = new Map();
  const depthOf = (ticket) => {
    if (depth.has(ticket.key)) return depth.get(ticket.key);
    depth.set(ticket.key, 0); // a circle ends here
    const needs = ticket.needs.map((key) => within.get(key)).filter(Boolean);
    const deepest = Math.max(levels.indexOf(ticket.level), ...needs.map((need) => depthOf(need) + 1));
    depth.set(ticket.key, deepest);
    return deepest;
  };
  const groups = new Map();
  for (const ticket of tickets) {
    const at = depthOf(ticket);
    if (!groups.has(at)) groups.set(at, []);
    groups.get(at).push(ticket);
  }
  // Whom others wait for is nearest to them.
  const leads = (ticket) => ticket.unlocks.some((key) => within.has(key));
  return [...groups].sort((a, b) => a[0] - b[0]).map(([, group]) => [...group.filter((t) => !leads(t)), ...group.filter(leads)]);
}

/** How many rows ranks side by side need, so that they take no more than `columns`. */
function rowsOf(groups, columns) {
  const count = groups.reduce((sum, group) => sum + group.length, 0);
  let rows = Math.ceil(count / columns);
  while (groups.reduce((sum, group) => sum + Math.ceil(group.length / rows), 0) > columns) rows += 1;
  return rows;
}

/** Ranks in lines of at most `columns`, broken where the whole becomes lowest, the first lines full. */
function linesOf(groups, columns) {
  const best = [{ height: 0 }];
  for (let end = 1; end <= groups.length; end += 1) {
    for (let start = Math.max(0, end - columns); start < end; start += 1) {
      const line = groups.slice(start, end);
      const rows = rowsOf(line, columns);
      const height = best[start].height + rows + 0.4;
      if (height <= (best[end]?.height ?? Infinity)) best[end] = { height, before: start, line: { groups: line, rows } };
    }
  }
  const lines = [];
  for (let at = groups.length; at > 0; at = best[at].before) lines.unshift(best[at].line);
  return lines;
}

/** Where everything goes in `width` pixels: boxes by key, headings, and the height of it all. */
function layout(run, sections, width) {
  const room = width - GUTTER;
  const size = sizeFor(run.tickets.size, room);
  const columns = Math.max(1, Math.floor((room + size.x) / (size.least + size.x)));
  const wide = (room - (columns - 1) * size.x) / columns;
  const boxes = new Map();
  const bands = [];
  let y = 0;
  for (const section of sections) {
    bands.push({ ...section, y });
    y += BAND;
    for (const line of blocks(section.tickets).flatMap((block) => linesOf(ranks(block), columns))) {
      let column = 0;
      for (const group of line.groups) {
        group.forEach((ticket, at) => {
          const x = GUTTER + (column + Math.floor(at / line.rows)) * (wide + size.x);
          boxes.set(ticket.key, { x, y: y + (at % line.rows) * (size.height + size.y), w: wide, h: size.height });
        });
        column += Math.ceil(group.length / line.rows);
      }
      y += line.rows * (size.height + size.y) + size.y;
    }
    bands.at(-1).height = y - bands.at(-1).y;
    y += AFTER;
  }
  return { boxes, bands, height: y };
}

/** A curve from what is needed to what needs it. */
function curve(from, to) {
  const [fx, fy] = [from.x + from.w, from.y + from.h / 2];
  const ty = to.y + to.h / 2;
  if (to.x >= fx) {
    const bend = Math.max(12, (to.x - fx) / 2);
    return `M${fx} ${fy}C${fx + bend} ${fy} ${to.x - bend} ${ty} ${to.x - 1} ${ty}`;
  }
  if (Math.abs(to.x - from.x) < 2) {
    return `M${from.x} ${fy}C${from.x - 16} ${fy} ${to.x - 16} ${ty} ${to.x - 1} ${ty}`;
  }
  const [mx, my] = [from.x + from.w / 2, from.y + from.h];
  const tx = to.x + to.w / 2;
  return `M${mx} ${my}C${mx} ${my + 24} ${tx} ${to.y - 24} ${tx} ${to.y - 1}`;
}

class Graph {
  constructor(run, onchoose) {
    this.run = run;
    this.onchoose = onchoose;
    this.buttons = new Map();
    this.placed = { boxes: new Map(), bands: [] };
    this.paths = new Map(); // by ticket: the edges that touch it
    this.small = run.tickets.size > MANY;
    this.element = h("div", { class: this.small ? "graph small" : "graph", role: "group", "aria-label": "Tickets and what they wait for" });
    this.element.addEventListener("click", (event) => this.on(event, (key) => onchoose(key)));
    this.element.addEventListener("mouseover", (event) => this.on(event, (key) => this.trace(key)));
    this.element.addEventListener("mouseleave", () => this.trace(this.chosen));
    this.element.addEventListener("focusin", (event) => this.on(event, (key) => this.trace(key)));
  }

  on(event, act) {
    const key = event.target.closest(".ticket")?.dataset.key;
    if (key !== undefined) act(key);
  }

  draw(width) {
    if (!width || width === this.width) return;
    this.width = width;
    this.lay();
  }

  /** Everything anew, but for sections in which nothing matches. */
  lay() {
    this.sections = this.matching();
    this.placed = layout(this.run, this.sections, this.width);
    this.paths.clear();
    this.element.style.height = `${this.placed.height}px`;
    const edges = svg("svg", { class: "edges", "aria-hidden": "true" }, arrow());
    this.drawSpine(edges);
    this.drawEdges(edges);
    const focused = this.element.contains(document.activeElement) && document.activeElement;
    const none = this.sections.length ? [] : [h("p", { class: "empty" }, "Nothing matches.")];
    this.element.replaceChildren(edges, ...this.placed.bands.map((band) => this.part(band)), ...none);
    if (focused) focused.focus({ preventScroll: true });
    this.choose(this.chosen);
    this.fade();
  }

  matching() {
    const all = sectionsOf(this.run);
    return this.found ? all.filter(({ tickets }) => tickets.some(({ key }) => this.found.has(key))) : all;
  }

  /** One section leads to the next where the next waits for it. */
  drawSpine(edges) {
    const bands = this.placed.bands;
    bands.slice(1).forEach((band, at) => {
      const before = bands[at];
      if (band.level <= before.level) return;
      const done = before.tickets.every((t) => !["failed", "active", "ready", "waiting"].includes(t.state));
      edges.append(svg("path", { class: done ? "spine done" : "spine", d: `M12 ${before.y + 31}V${band.y + 1}` }));
    });
  }

  drawEdges(edges) {
    for (const [from, to] of edgesOf(this.run)) {
      const [start, end] = [this.placed.boxes.get(from.key), this.placed.boxes.get(to.key)];
      if (!start || !end) continue;
      const path = svg("path", { d: curve(start, end), "marker-end": "url(#arrow)" });
      if (!from.state.startsWith("resolved")) path.classList.add("open");
      for (const [key, other] of [[from.key, to.key], [to.key, from.key]]) {
        if (!this.paths.has(key)) this.paths.set(key, []);
        this.paths.get(key).push([path, other]);
      }
      edges.append(path);
    }
  }

  button(key) {
    if (!this.buttons.has(key)) {
      const ticket = this.run.tickets.get(key);
      const tries = ticket.attempts.length > 1 && h("span", { class: "tries", title: plural(ticket.attempts.length, "attempt") }, `×${ticket.attempts.length}`);
      this.buttons.set(key, h("button", {
        class: `ticket k-${ticket.kind}`, data: { key }, tabindex: "-1", title: `${key} ${ticket.title}`,
        "aria-label": `${key} ${ticket.title}: ${said(ticket.kind)}${tries ? `, ${plural(ticket.attempts.length, "attempt")}` : ""}`,
      }, icon(ticket.kind), bdi(key, { class: "key" }), !this.small && bdi(ticket.title, { class: "title" }), tries));
    }
    return this.buttons.get(key);
  }

  /** A section: of one that is out of sight, the browser draws nothing. */
  part(band) {
    const buttons = band.tickets.map(({ key }) => {
      const [button, box] = [this.button(key), this.placed.boxes.get(key)];
      button.style.cssText = `left:${box.x}px;top:${box.y - band.y}px;width:${box.w}px;height:${box.h}px`;
      return button;
    });
    return h("div", { class: "part", style: { top: `${band.y}px`, height: `${band.height}px` } }, heading(band), buttons);
  }

  filter(found) {
    this.found = found;
    if (!this.width) return;
    const places = (sections) => sections.map(({ at }) => at).join();
    if (places(this.matching()) === places(this.sections)) this.fade();
    else this.lay();
  }

  fade() {
    for (const [key, button] of this.buttons) button.classList.toggle("off", Boolean(this.found) && !this.found.has(key));
    this.element.classList.toggle("narrowed", Boolean(this.found));
    this.rove();
  }

  choose(key) {
    this.buttons.get(this.chosen)?.classList.remove("chosen");
    this.chosen = key;
    this.buttons.get(key)?.classList.add("chosen");
    this.trace(key);
    this.rove();
  }

  /** Show what a ticket needs and what needs it. */
  trace(key) {
    for (const [path, other] of this.paths.get(this.traced) ?? []) {
      path.classList.remove("on");
      this.buttons.get(other)?.classList.remove("near");
    }
    this.traced = key;
    const touching = this.paths.get(key) ?? [];
    for (const [path, other] of touching) {
      path.classList.add("on");
      this.buttons.get(other)?.classList.add("near");
    }
    this.element.classList.toggle("tracing", touching.length > 0);
  }

  /** One ticket is reached by Tab: the chosen one, else the first that matches. */
  rove() {
    this.stop?.setAttribute("tabindex", "-1");
    this.stop = this.buttons.get(this.chosen) ?? this.buttons.get(this.order()[0]);
    this.stop?.setAttribute("tabindex", "0");
  }

  order() {
    return [...this.placed.boxes.keys()].filter((key) => !this.found || this.found.has(key));
  }

  /** The ticket that an arrow key leads to: the nearest in that direction. */
  beside(key, dx, dy) {
    const from = this.placed.boxes.get(key);
    if (!from) return this.order()[0];
    let best = null;
    let least = Infinity;
    for (const other of this.order()) {
      const to = this.placed.boxes.get(other);
      const [x, y] = [to.x - from.x, to.y - from.y];
      const along = x * dx + y * dy;
      if (along < 2) continue;
      const cost = along + 4 * Math.abs(dx ? y : x);
      if (cost < least) [best, least] = [other, cost];
    }
    return best;
  }
}

/** The edges that are drawn: what tickets name, and from rank to rank where few wait for few. */
function* edgesOf(run) {
  for (const ticket of run.tickets.values()) {
    for (const need of ticket.needs) if (run.tickets.has(need)) yield [run.tickets.get(need), ticket];
  }
  for (const { tickets } of sectionsOf(run)) {
    const levels = Map.groupBy(tickets, (ticket) => ticket.level);
    const ascending = [...levels.keys()].sort((a, b) => a - b);
    for (let at = 1; at < ascending.length; at += 1) {
      const [before, after] = [levels.get(ascending[at - 1]), levels.get(ascending[at])];
      if (before.length * after.length > 16) continue;
      for (const to of after) for (const from of before) if (!to.needs.includes(from.key)) yield [from, to];
    }
  }
}

function arrow() {
  const head = svg("path", { d: "M1 1L6 4L1 7", fill: "none" });
  return svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: "6", refY: "4", markerWidth: "7", markerHeight: "7", orient: "auto-start-reverse", markerUnits: "userSpaceOnUse" }, head));
}

function heading(band) {
  const done = band.tickets.filter((t) => t.state.startsWith("resolved")).length;
  const total = band.tickets.filter((t) => t.state !== "canceled").length;
  return h("div", { class: "band" },
    ring(total ? done / total : 1),
    h("h2", {}, bdi(band.title || "Tickets")),
    h("span", { class: "count" }, `${done} of ${total}`));
}

function ring(part) {
  const drawn = svg("svg", { class: "ring", viewBox: "0 0 24 24", "aria-hidden": "true" });
  if (part >= 1) drawn.append(svg("circle", { class: "whole", cx: 12, cy: 12, r: 9.5 }), svg("path", { class: "cut", d: "M7.8 12.4l2.9 2.9 5.6-6.2" }));
  else drawn.append(svg("circle", { cx: 12, cy: 12, r: 8 }), svg("circle", { class: "share", cx: 12, cy: 12, r: 8, "stroke-dasharray": `${50.27 * part} 60` }));
  return drawn;
}
