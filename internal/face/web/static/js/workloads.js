// SPDX-License-Identifier: Apache-2.0
//
// The table of workloads, and their heat map, which is a table of other columns. Only the rows
// that can be seen are in the document, so thousands cost as much as thirty. The arrow keys go
// from row to row.

import { h, fill, say } from "./dom.js";
import { store, nameOf } from "./store.js";
import { spark, sparkColour } from "./chart.js";
import { cells, measures, paint as heatColour, spans, strip, told } from "./heat.js";
import { age, rate, wait, delay, limit, drops, kept, total, direction } from "./units.js";

const ROW = 36; // px, as in style.css

// A column has a value to sort by and a text. traffic is the workload's on the chosen link.
const columns = [
	{ name: "Name", by: (w) => w.name, wide: true },
	{ name: "Rate", by: (w, t) => t?.rate_bps ?? -1, text: (w, t) => (t ? rate(t.rate_bps) : "-"), number: true, down: true },
	{ name: "Ideal", by: (w, t) => t?.ideal_bps ?? -1, text: (w, t) => (t ? rate(t.ideal_bps) : "-"), number: true, down: true, more: 1 },
	{ name: "Last minute", spark: true, more: 1 },
	{ name: "Promise kept", by: (w, t) => t?.score?.kept ?? 2, text: (w, t) => (t?.score ? kept(t.score.kept) : "-"), title: (w, t) => t?.score?.text, number: true, more: 1 },
	{ name: "Delay p99", by: (w, t) => (t?.delay?.packets ? t.delay.p99_ms : -1), text: (w, t) => (t?.delay?.packets ? wait(t.delay.p99_ms) : "-"), title: (w, t) => delay(t?.delay), number: true, down: true, more: 1 },
	{ name: "Weight", by: (w, t, p) => p.weight, text: (w, t, p) => String(p.weight), number: true, down: true, more: 2 },
	{ name: "Min", by: (w, t) => t?.min_bps ?? 0, text: (w, t) => (t?.min_bps ? limit(t.min_bps) : "-"), number: true, down: true, more: 1 },
	{ name: "Max", by: (w, t) => t?.max_bps || Infinity, text: (w, t) => (t?.max_bps ? limit(t.max_bps) : "-"), number: true, more: 1 },
	{ name: "Backlog", by: (w, t) => t?.backlog_packets ?? 0, text: (w, t) => (t?.backlog_packets ? `${t.backlog_packets} p` : "-"), number: true, down: true, more: 2 },
	{ name: "Drops", by: (w, t) => t?.drops_per_second || total(t?.drops) / 1e12, text: (w, t) => dropped(t), title: (w, t) => drops(t?.drops, t?.drops_per_second), down: true, more: 2, clip: true },
	{ name: "State", by: (w) => stateOf(w), text: (w) => stateText(w), title: (w) => w.note, state: true, clip: true },
];

// lost returns the first link that is not steered.
const lost = () => store.sample?.links.find((l) => l.error);

// stateOf returns a workload's state for people: of one that would be active on a link that is not
// steered, that.
const stateOf = (w) => (w.state === "not held" && lost() ? "not steered" : w.state);

// stateText adds the reason.
function stateText(w) {
	const state = stateOf(w);
	const reason = state === "not steered" ? lost().error : w.note;
	return reason ? `${state}: ${reason}` : state;
}

const heatColumns = [
	columns[0],
	{ heat: true },
	...columns.slice(1, 3),
];

function dropped(t) {
	const n = total(t?.drops);
	if (!n) return "-";
	const reasons = Object.entries(t.drops).filter(([, k]) => k > 0).sort(([, a], [, b]) => b - a);
	return `${n} (${reasons[0][0]}${reasons.length > 1 ? `, ${reasons.length - 1} more` : ""})`;
}

const groupings = {
	none: null,
	group: (w) => w.policy.group || "no group",
	kind: (w) => w.kind,
	state: (w) => w.state,
};

// What is chosen stays when the view is left.
const chosen = { column: 1, reverse: true, filter: "", grouping: "none", link: "", measure: "rate", span: "10 minutes" };

export function workloadsView(main, [mode]) {
	const heat = mode === "heat";
	const shown = heat ? heatColumns : columns;
	let lines = []; // what the table shows: workloads, and headings of groups
	let active = ""; // key of the row that the keyboard is at
	const rows = new Map(); // by key: elements in the document
	const spare = []; // elements of rows that have left it
	let order = new Map(); // by key: place when it was sorted last
	let sorted = ""; // and by what
	const held = () => space.matches(":hover") || space.contains(document.activeElement);

	const filter = h("input", { type: "search", id: "filter", placeholder: "name, kind, state, group", value: chosen.filter, oninput: () => { chosen.filter = filter.value; box.scrollTop = 0; update(); } });
	const grouping = h("select", { id: "grouping", onchange: () => { chosen.grouping = grouping.value; update(); } },
		Object.keys(groupings).map((g) => h("option", { selected: g === chosen.grouping }, g)));
	const pick = (name, options) => h("select", { id: name, onchange: (e) => { chosen[name] = e.target.value; update(); } },
		options.map(([value, title]) => h("option", { value, selected: value === chosen[name] }, title)));
	const links = h("select", { id: "links", onchange: () => { chosen.link = links.value; update(); } });
	const linksLabel = h("label", { hidden: true }, "Link ", links);
	const count = h("span", { class: "soft", role: "status" });
	const heads = shown.map((c) => h("div", { role: "columnheader", class: cls(c) },
		c.by ? h("button", { type: "button", class: "plain", onclick: () => sort(columns.indexOf(c)) }, c.name) : c.name));
	const sparkHead = heads[shown.findIndex((c) => c.spark || c.heat)];
	const oldest = h("span", {}), legend = h("p", { class: "key soft legend-heat" });
	const cell = h("p", { class: "key cell" });
	const space = h("div", { class: "space", role: "rowgroup" });
	const box = h("div", { class: heat ? "rows heat" : "rows", tabindex: "0", role: "table", "aria-label": "Workloads", onscroll: scrolled, onkeydown: key, onpointermove: (e) => point({ target: e.target, x: e.offsetX }), onpointerleave: () => point(null) },
		h("div", { role: "rowgroup", class: "top" }, h("div", { role: "row", class: "row" }, heads)), space);
	fill(main,
		h("div", { class: "head" }, h("h1", {}, "Workloads"), count,
			h("nav", { class: "tabs", "aria-label": "Show" }, [["", "Table"], ["/heat", "Heat map"]].map(([part, name]) =>
				h("a", { href: `#/workloads${part}`, "aria-current": heat === Boolean(part) ? "page" : null }, name)))),
		h("div", { class: "controls" },
			h("label", {}, "Filter ", filter), h("label", {}, "Group by ", grouping), linksLabel,
			heat && h("label", {}, "Show ", pick("measure", Object.entries(measures).map(([name, m]) => [name, m.title]))),
			heat && h("label", {}, "Time ", pick("span", Object.keys(spans).map((name) => [name, name])))),
		heat && h("div", { class: "reading" }, legend, cell),
		h("section", { class: "card flush" }, box));

	function sort(i) {
		chosen.reverse = i === chosen.column ? !chosen.reverse : Boolean(columns[i].down);
		chosen.column = i;
		update();
	}

	const traffic = (w) => w.links.find((l) => nameOf(l) === chosen.link);
	const policy = (w) => (chosen.link.endsWith("/ingress") && w.policy.ingress) || w.policy;

	function update() {
		const sample = store.sample;
		if (!sample) return;
		const names = sample.links.map(nameOf);
		if (!names.includes(chosen.link)) chosen.link = names[0] ?? "";
		linksLabel.hidden = names.length < 2;
		if (links.children.length !== names.length) fill(links, sample.links.map((l) => h("option", { value: nameOf(l) }, `${l.device} ${direction(l.direction)}`)));
		if (links.value !== chosen.link) links.value = chosen.link;
		shown.forEach((c, i) => {
			const head = heads[i];
			if (columns.indexOf(c) === chosen.column) head.setAttribute("aria-sort", chosen.reverse ? "descending" : "ascending");
			else head.removeAttribute("aria-sort");
		});
		const words = chosen.filter.toLowerCase().split(/\s+/).filter(Boolean);
		const all = words.length ? sample.workloads.filter((w) => {
			const text = `${w.name} ${w.kind} ${w.state} ${w.policy.group ?? ""}`.toLowerCase();
			return words.every((word) => text.includes(word));
		}) : sample.workloads;
		lines = arrange(all);
		say(count, all.length === sample.workloads.length ? `${all.length}` : `${all.length} of ${sample.workloads.length}`);
		box.setAttribute("aria-rowcount", String(lines.length + 1));
		space.style.height = `${lines.length * ROW}px`;
		if (heat) explainHeat();
		paint(true);
		if (heat) point(pointed);
	}

	let waiting = false;
	function scrolled() {
		if (waiting) return;
		waiting = true;
		requestAnimationFrame(() => {
			waiting = false;
			paint(false);
		});
	}

	// arrange sorts workloads, and puts headings between groups.
	function arrange(all) {
		const { by } = columns[chosen.column];
		const keyed = all.map((w) => ({ w, t: traffic(w), value: null }));
		for (const k of keyed) k.value = by(k.w, k.t, policy(k.w));
		const compare = (a, b) => (a.value < b.value ? -1 : a.value > b.value ? 1 : 0) * (chosen.reverse ? -1 : 1) || (a.w.name < b.w.name ? -1 : 1);
		// Rows do not move away from under the pointer or the keyboard.
		if (order.size && held() && sorted === `${chosen.column} ${chosen.reverse}`) keyed.sort((a, b) => (order.get(a.w.key) ?? Infinity) - (order.get(b.w.key) ?? Infinity) || compare(a, b));
		else keyed.sort(compare);
		sorted = `${chosen.column} ${chosen.reverse}`;
		order = new Map(keyed.map((k, i) => [k.w.key, i]));
		const of = groupings[chosen.grouping];
		if (!of) return keyed;
		const parts = Map.groupBy(keyed, (k) => of(k.w));
		return [...parts].sort(([a], [b]) => (a < b ? -1 : 1)).flatMap(([name, members]) => [
			{ heading: name, members: members.length, sum: members.reduce((n, k) => n + (k.t?.rate_bps ?? 0), 0) }, ...members]);
	}

	let made = null; // what all rows are written with: looked up once a sample, as it makes the browser lay out
	const look = () => (made ??= heat ? { parts: parts(), colour: heatColour(chosen.measure) } : { recent: store.window(60), width: sparkHead.clientWidth || 100, fill: sparkColour() });
	const stale = new Map(); // by key: line of a row that says what was before the newest sample

	// paint puts the rows that can be seen into the document. Rows that are there already are
	// written with a new sample only, and not while the table is scrolled.
	function paint(all) {
		const first = Math.max(0, Math.floor(box.scrollTop / ROW) - 5);
		const last = Math.min(lines.length, Math.ceil((box.scrollTop + box.clientHeight) / ROW) + 5);
		const seen = new Set();
		if (all) {
			made = null;
			stale.clear();
		}
		for (let i = first; i < last; i++) {
			const id = lines[i].w?.key ?? `heading ${lines[i].heading}`;
			seen.add(id);
			let row = rows.get(id);
			const fresh = !row;
			if (fresh) {
				row = lines[i].w ? (spare.pop() ?? make()) : h("div", { role: "row", class: "row heading" }, h("div", { role: "cell", class: "wide" }));
				rows.set(id, row);
				space.append(row);
			}
			if (!fresh && !all) continue;
			row.style.top = `${i * ROW}px`; // a transform of its own for each row takes the browser 2 ms a frame
			row.setAttribute("aria-rowindex", String(i + 2));
			if (fresh) write(row, lines[i]);
			else stale.set(id, lines[i]);
		}
		for (const [id, row] of rows) {
			if (seen.has(id)) continue;
			if (row.contains(document.activeElement)) {
				if (order.has(id)) continue; // the keyboard is there
				box.focus({ preventScroll: true }); // of a workload that is gone
			}
			row.remove();
			rows.delete(id);
			if (row.children.length > 1) spare.push(row);
		}
		if (all) soon();
	}

	// freshen writes rows anew, for a part of each frame: all at once would be felt while the
	// table is scrolled.
	function freshen() {
		const until = performance.now() + 2;
		for (const [id, line] of stale) {
			stale.delete(id);
			if (rows.has(id)) write(rows.get(id), line);
			if (performance.now() > until) break;
		}
		soon();
	}

	let next = 0; // frame in which rows are written
	function soon() {
		cancelAnimationFrame(next);
		if (stale.size) next = requestAnimationFrame(freshen);
	}

	const make = () => h("div", { role: "row", class: "row" }, shown.map((c) => h("div", { role: "cell", class: cls(c) },
		c.wide && h("a", {}),
		c.spark && h("canvas", { class: "spark", "aria-hidden": "true" }),
		c.heat && h("canvas", { class: "strip", "aria-hidden": "true" }))));

	// parts are the cells of each strip now.
	const parts = () => cells(store.window(spans[chosen.span]));

	// explainHeat says what the colours mean, and from when to when the strips are.
	function explainHeat() {
		const rows = store.window(spans[chosen.span]);
		const m = measures[chosen.measure];
		fill(legend, m.legend, h("span", { class: `scale ${chosen.measure}`, "aria-hidden": "true" }), m.full);
		if (!oldest.isConnected) fill(sparkHead, oldest, h("span", { class: "more1" }, "now"));
		say(oldest, rows.length ? `${age(store.times[store.head] - store.times[rows[0]])} ago` : "");
	}

	// point says what the cell below the pointer shows, and goes on to with each sample.
	let pointed = null; // {target, x}: where the pointer is
	function point(at) {
		pointed = at;
		const key = at?.target.matches(".strip") && at.target.dataset.key;
		const series = key && store.series(chosen.link, key);
		const name = lines.find((l) => l.w?.key === key)?.w.name;
		if (!series || !name) return say(cell, "");
		const list = parts();
		const rows = list[Math.min(list.length - 1, Math.floor((at.x / at.target.clientWidth) * list.length))];
		if (rows) say(cell, told(name, series, rows, store.times, chosen.measure));
	}

	function write(row, line) {
		const { w, t } = line;
		if (!w) return say(row.firstChild, `${line.heading}: ${line.members}, ${rate(line.sum)}`);
		const top = store.sample.links.find((l) => nameOf(l) === chosen.link)?.capacity_bps;
		shown.forEach((c, i) => {
			const cell = row.children[i];
			if (c.heat) {
				cell.firstChild.dataset.key = w.key;
				strip(cell.firstChild, store.series(chosen.link, w.key), look().parts, chosen.measure, top, look().colour);
			} else if (c.spark) {
				const s = store.series(chosen.link, w.key);
				const values = s ? look().recent.map((r) => s.rate(r)) : [];
				const highest = Math.max(0, ...values.filter((v) => v === v));
				spark(cell.firstChild, look().width, values, Math.max(highest, (top ?? 0) / 50), look().fill);
			} else if (c.wide) {
				const link = cell.firstChild;
				if (link.dataset.key === w.key) return;
				link.dataset.key = w.key;
				link.href = `#/workload/${encodeURIComponent(w.name)}`;
				link.textContent = w.name;
			} else {
				say(cell, c.text(w, t, policy(w)));
				if (c.title) cell.title = c.title(w, t) ?? "";
				if (c.state) cell.dataset.state = w.state;
			}
		});
	}

	function key(e) {
		const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15 }[e.key];
		if (!step || !lines.length) return;
		e.preventDefault();
		const here = lines.findIndex((l) => l.w && l.w.key === (document.activeElement?.dataset.key ?? active));
		let next = Math.max(0, Math.min(lines.length - 1, here + step));
		while (lines[next] && !lines[next].w && next > 0 && next < lines.length - 1) next += Math.sign(step);
		if (!lines[next]?.w) return;
		active = lines[next].w.key;
		const y = next * ROW;
		if (y < box.scrollTop) box.scrollTop = y;
		if (y + 3 * ROW > box.scrollTop + box.clientHeight) box.scrollTop = y + 3 * ROW - box.clientHeight;
		paint(false);
		rows.get(active)?.querySelector("a").focus({ preventScroll: true });
	}

	const resized = () => paint(true);
	addEventListener("resize", resized);
	const off = store.on(update);
	return () => {
		off();
		removeEventListener("resize", resized);
	};
}

const cls = (c) => [c.number && "number", c.wide && "wide", (c.spark || c.heat) && "history", c.more && `more${c.more}`, c.state && "state", c.clip && "clip"].filter(Boolean).join(" ");
