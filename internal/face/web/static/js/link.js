// SPDX-License-Identifier: Apache-2.0
//
// The view of a link: who has how much of it over time, and what is promised.

import { h, fill, say, facts, gauge, measure } from "./dom.js";
import { ask, path } from "./api.js";
import { store, nameOf } from "./store.js";
import { Chart, colour } from "./chart.js";
import { rate, percent, clock, stamp, direction } from "./units.js";

const SHOWN = 8; // workloads with a band of their own; the rest is one band

// Up to an hour comes from the stream, by the second; what is older from usage, by the hour or day.
const ranges = [
	{ name: "1 min", seconds: 60 }, { name: "10 min", seconds: 600 }, { name: "1 h", seconds: 3600 },
	{ name: "24 h", by: "hour", hours: 24 }, { name: "7 d", by: "hour", hours: 168 }, { name: "90 d", by: "day", hours: 2160 },
];

let range = ranges[0]; // kept when the view is left and shown again

export function linkView(main, [device, way]) {
	let alone = null; // key of the only workload that is drawn
	let kept = null; // bands from usage
	let keptFor = "";
	let cursor = null;
	let shown = []; // keys with a band, in their order
	let drawn = { times: [], bands: [] };

	const picker = h("nav", { class: "tabs", "aria-label": "Links" });
	const figures = h("div", {});
	const bar = gauge();
	const notes = h("div", { class: "notes" });
	const plot = h("div", { class: "plot" });
	const buttons = ranges.map((r) => h("button", { type: "button", "aria-pressed": String(r === range), onclick: () => choose(r) }, r.name));
	const when = h("span", { class: "soft", "aria-live": "off" });
	const legend = h("tbody", {});
	const heading = h("h1", {}, "Link");
	fill(main,
		h("div", { class: "head" }, heading, picker),
		h("section", { class: "card" }, figures, bar,
			h("p", { class: "soft key" }, h("span", { class: "mark reserved" }), "reserved by mins", h("span", { class: "mark used" }), "used now"), notes),
		h("section", { class: "card" },
			h("div", { class: "head" }, h("h2", {}, "Shares over time"), h("div", { class: "buttons", role: "group", "aria-label": "Time" }, buttons), when),
			plot,
			h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Workloads in the chart" },
				h("table", { class: "legend" },
					h("thead", {}, h("tr", {}, ["Workload", "Rate", "Ideal", "Of the link"].map((t, i) => h("th", { scope: "col", class: i ? "number" : null }, t)))),
					legend)),
			h("p", { class: "soft" }, "Areas: what each workload sends or receives, stacked. Dashed: what weight, min and max give it now, in the same order. Line: the capacity.")));
	const chart = new Chart(plot, { label: "Rates of the link's workloads over time, stacked; the table below has the values", onCursor: (i) => { cursor = i; values(); } });

	function choose(r) {
		range = r;
		buttons.forEach((b, i) => b.setAttribute("aria-pressed", String(ranges[i] === r)));
		draw();
	}

	const current = () => store.sample?.links.find((l) => l.device === device && l.direction === (way ?? "egress")) ?? store.sample?.links[0];

	function update(sample) {
		const link = current();
		if (!link) {
			fill(figures, h("p", {}, "The agent has no link. Name one in weir.yaml, under links."));
			return;
		}
		say(heading, `${link.device} ${direction(link.direction)}`);
		if (picker.children.length !== sample.links.length) fill(picker, sample.links.length > 1 && sample.links.map((l) =>
			h("a", { href: `#/link/${encodeURIComponent(l.device)}/${l.direction}` }, `${l.device} ${l.direction}`)));
		for (const a of picker.children) {
			if (a.hash === `#/link/${encodeURIComponent(link.device)}/${link.direction}`) a.setAttribute("aria-current", "page");
			else a.removeAttribute("aria-current");
		}
		fill(figures, facts([
			["Now", rate(link.rate_bps)],
			["Capacity", rate(link.capacity_bps)],
			["Reserved", rate(link.reserved_bps)],
			link.allocated_bps ? ["of it for pods", rate(link.allocated_bps)] : null,
			["Free for mins", rate(link.free_bps)],
			["Workloads", String(link.workloads)],
			["Scheduler", link.backend === "bpf" ? `${link.scheduler} (BPF qdisc)` : link.scheduler],
		]));
		// What mins take of the link, and what is used.
		measure(bar, link.reserved_bps / link.capacity_bps, link.rate_bps / link.capacity_bps,
			`${percent(link.rate_bps / link.capacity_bps)} used, ${percent(link.reserved_bps / link.capacity_bps)} reserved`);
		fill(notes,
			link.error && h("p", { class: "problem" }, `Not steered: ${link.error}`),
			link.down && h("p", { class: "problem" }, link.down),
			link.warning && h("p", { class: "warning" }, link.warning),
			(link.not_held ?? []).map((g) => h("p", { class: "warning" }, `${g.field} ${g.value} is not held on this kernel: ${g.reason}`)));
		draw();
	}

	function draw() {
		const link = current();
		if (!link) return;
		const lines = [{ name: "capacity", value: link.capacity_bps, colour: getComputedStyle(main).getPropertyValue("--capacity") }];
		if (range.by) {
			usage(link);
			drawn = kept ?? { times: [], bands: [] };
		} else {
			drawn = live(link);
		}
		if (drawn.times.length) chart.draw({ ...drawn, lines: alone ? [] : lines, long: Boolean(range.by) });
		values();
	}

	// live returns the bands of the last seconds.
	function live(link) {
		const rows = store.window(range.seconds);
		const all = [...(store.links.get(nameOf(link)) ?? new Map()).values()].filter((s) => s.seen >= store.times[rows[0]]);
		const sum = (s) => {
			let n = 0;
			for (const r of rows) n += s.rate(r) || 0;
			return n;
		};
		const weights = new Map(all.map((s) => [s.key, sum(s)]));
		const busy = all.filter((s) => weights.get(s.key) > 0 || rows.some((r) => s.ideal(r) > 0.5));
		shown = pick(shown, busy.map((s) => s.key), weights);
		const series = (s) => ({ key: s.key, name: s.name, rate: rows.map((r) => s.rate(r)), ideal: rows.map((r) => s.ideal(r)) });
		let bands = shown.map((key, i) => ({ ...series(all.find((s) => s.key === key)), colour: colour(i) }));
		const rest = busy.filter((s) => !shown.includes(s.key));
		if (rest.length) {
			const rate = rows.map(() => 0), ideal = rows.map(() => 0);
			for (const s of rest) {
				for (let i = 0; i < rows.length; i++) {
					rate[i] += s.rate(rows[i]) || 0;
					ideal[i] += s.ideal(rows[i]) || 0;
				}
			}
			bands.push({ key: "", name: `${rest.length} more`, rate, ideal, colour: colour(9) });
		}
		const present = rows.map((r) => all.some((s) => s.rate(r) === s.rate(r)));
		if (alone !== null) bands = bands.filter((b) => b.key === alone);
		for (const b of bands) b.gap = present.map((p) => !p);
		return { times: rows.map((r) => store.times[r]), bands };
	}

	// usage asks for the history that the agent keeps.
	async function usage(link) {
		const now = Math.floor(Date.now() / 60000);
		const wanted = [nameOf(link), range.name, alone, now].join();
		if (wanted === keptFor) return;
		keptFor = wanted;
		const since = new Date(Date.now() - range.hours * 3600e3).toISOString().replace(/\.\d+Z/, "Z");
		const { rows } = await ask(path(["usage"], { since, by: range.by })).catch(() => ({ rows: [] }));
		const step = range.by === "day" ? 86400 : 3600;
		const field = link.direction === "egress" ? "sent_bytes" : "received_bytes";
		const mine = rows.filter((r) => r.kind === "workload" && r.device === link.device && r[field] > 0 && r.at);
		const times = [...new Set(mine.map((r) => Date.parse(r.at) / 1000))].sort((a, b) => a - b);
		const by = new Map();
		for (const r of mine) {
			if (!by.has(r.name)) by.set(r.name, new Array(times.length).fill(0));
			const begin = Date.parse(r.at) / 1000;
			const seconds = Math.min(step, Date.now() / 1000 - begin); // the last is not over
			by.get(r.name)[times.indexOf(begin)] = r[field] * 8 / Math.max(1, seconds);
		}
		const weights = new Map([...by].map(([name, v]) => [name, v.reduce((a, b) => a + b, 0)]));
		const top = pick([], [...by.keys()], weights);
		let bands = top.map((name, i) => ({ key: name, name, rate: by.get(name), colour: colour(i) }));
		const rest = [...by.keys()].filter((n) => !top.includes(n));
		if (rest.length) bands.push({ key: "", name: `${rest.length} more`, colour: colour(9), rate: times.map((_, i) => rest.reduce((n, name) => n + by.get(name)[i], 0)) });
		// One hour alone is a line of its own length.
		if (times.length === 1) {
			times.push(Math.min(Date.now() / 1000, times[0] + step));
			for (const b of bands) b.rate = [b.rate[0], b.rate[0]];
		}
		if (alone !== null) bands = bands.filter((b) => b.key === alone || b.name === alone);
		kept = { times, bands };
		draw();
	}

	// values writes the table: at the crosshair, else of now.
	function values() {
		const i = cursor ?? drawn.times.length - 1;
		const at = drawn.times[i];
		say(when, at === undefined ? "" : range.by ? `${stamp(at)} on` : `at ${clock(at)}`);
		const capacity = current()?.capacity_bps;
		const rows = drawn.bands.toReversed();
		while (legend.children.length > rows.length) legend.lastChild.remove();
		while (legend.children.length < rows.length) legend.append(line());
		rows.forEach((band, n) => {
			const [name, r, ideal, share] = legend.children[n].children;
			const [swatch, label, link, button] = name.firstChild.children;
			swatch.style.background = band.colour;
			const known = store.workload(band.name);
			label.hidden = known;
			link.hidden = !known;
			say(label, band.name);
			say(link, band.name);
			button.setAttribute("aria-label", `Draw ${band.name} alone`);
			button.setAttribute("aria-pressed", String(alone !== null && alone === band.key));
			button.onclick = () => { alone = alone === null ? band.key : null; keptFor = ""; draw(); };
			link.href = `#/workload/${encodeURIComponent(band.name)}`;
			const v = band.rate[i] || 0;
			say(r, rate(v));
			say(ideal, band.ideal && band.ideal[i] === band.ideal[i] ? rate(band.ideal[i]) : "-");
			say(share, capacity ? percent(v / capacity) : "");
		});
	}

	const line = () => h("tr", {},
		h("td", {}, h("div", { class: "named" }, h("span", { class: "swatch" }), h("span", {}), h("a", {}), h("button", { type: "button", class: "small" }, "alone"))),
		h("td", { class: "number" }), h("td", { class: "number" }), h("td", { class: "number" }));

	const off = store.on(update);
	return () => {
		off();
		chart.destroy();
	};
}

// pick returns the keys that have a band of their own, in a steady order: one that has a place
// keeps it while it is among the busiest.
export function pick(before, all, weights) {
	const busiest = new Set(all.toSorted((a, b) => weights.get(b) - weights.get(a)).slice(0, SHOWN));
	const next = before.map((key) => (busiest.delete(key) ? key : null));
	for (const key of busiest) {
		const free = next.indexOf(null);
		if (free < 0) next.push(key);
		else next[free] = key;
	}
	return next.filter((key) => key !== null);
}
