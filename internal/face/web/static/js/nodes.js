// SPDX-License-Identifier: Apache-2.0
//
// The view of a cluster's nodes: what each has, what is reserved and used of it, what is free.

import { h, fill, say, facts, gauge, measure, refusal } from "./dom.js";
import { path } from "./api.js";
import { cluster, poll } from "./poll.js";
import { age, percent, rate, size } from "./units.js";

const part = (used, whole) => (whole > 0 ? used / whole : 0);
const free = (n) => Math.max(0, n.guaranteed_bps - n.reserved_bps);

// resources of a node: what of it is reserved and used, as parts of 1, and in words.
export const resources = [
	{ name: "Mins", reserved: (n) => part(n.reserved_bps, n.guaranteed_bps), used: (n) => part(n.transmit_bps, n.guaranteed_bps),
		text: (n) => (n.guaranteed_bps ? `${rate(n.reserved_bps)} of ${rate(n.guaranteed_bps)}` : "no link"),
		label: (n) => `${rate(n.reserved_bps)} of ${rate(n.guaranteed_bps)} reserved, ${rate(free(n))} free, ${rate(n.transmit_bps)} used` },
	{ name: "CPU", reserved: () => 0, used: (n) => part(n.cpu_cores, n.cpu_capacity),
		text: (n) => `${n.cpu_cores.toFixed(1)} of ${n.cpu_capacity}`, label: (n) => `${percent(part(n.cpu_cores, n.cpu_capacity))} of ${n.cpu_capacity} cores used` },
	{ name: "Memory", reserved: () => 0, used: (n) => part(n.memory_bytes, n.memory_total_bytes),
		text: (n) => `${size(n.memory_bytes)} of ${size(n.memory_total_bytes)}`, label: (n) => `${percent(part(n.memory_bytes, n.memory_total_bytes))} of memory used` },
];

// A column has a value to sort by.
const columns = [
	{ name: "Node", by: (n) => n.name },
	{ name: "Mins", by: (n) => resources[0].reserved(n), resource: resources[0], down: true },
	{ name: "Free for mins", by: free, text: (n) => rate(free(n)), number: true, down: true, more: 1 },
	{ name: "Sends", by: (n) => n.transmit_bps, text: (n) => rate(n.transmit_bps), number: true, down: true, more: 1 },
	{ name: "CPU", by: resources[1].used, resource: resources[1], down: true, more: 1 },
	{ name: "Memory", by: resources[2].used, resource: resources[2], down: true, more: 1 },
	{ name: "Containers", by: (n) => n.containers, text: (n) => String(n.containers), number: true, down: true },
	{ name: "Agent", by: (n) => n.weir ?? "", text: (n) => n.weir ?? "-", more: 2 },
];

const cls = (c) => [c.number && "number", c.more && `more${c.more}`].filter(Boolean).join(" ") || null;

const SHOWN = 200; // rows, until all are asked for: each is three bars

const chosen = { column: 0, reverse: false, filter: "", all: false }; // kept when the view is left

// condition says what is the matter with a node, null if nothing is.
export function condition(n) {
	if (n.state === "lost") return `not heard of for ${age((Date.now() - Date.parse(n.heard)) / 1000)}`;
	if (n.state === "joined") return "never heard of";
	return n.trouble || null;
}

export function nodesView(main) {
	const rows = new Map(); // by name: the row and its cells
	let nodes = null;
	const count = h("span", { class: "soft", role: "status" });
	const head = h("div", {}), wrong = h("div", {});
	const filter = h("input", { type: "search", placeholder: "name, state", value: chosen.filter, oninput: () => { chosen.filter = filter.value; draw(); } });
	const heads = columns.map((c, i) => h("th", { scope: "col", class: cls(c) }, h("button", { type: "button", class: "plain", onclick: () => sort(i) }, c.name)));
	const body = h("tbody", {});
	const empty = h("p", { class: "soft pad", hidden: true });
	const more = h("p", { class: "pad", hidden: true }, h("button", { type: "button", onclick: () => { chosen.all = true; draw(); } }));
	fill(main,
		h("div", { class: "head" }, h("h1", {}, "Nodes"), count),
		h("section", { class: "card" }, head, wrong),
		h("div", { class: "controls" }, h("label", {}, "Filter ", filter)),
		h("section", { class: "card flush" }, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Nodes" },
			h("table", { class: "nodes" }, h("thead", {}, h("tr", {}, heads)), body)), empty, more,
			h("p", { class: "soft key pad" }, h("span", { class: "mark reserved" }), "reserved by mins", h("span", { class: "mark used" }), "used now")));

	function sort(i) {
		chosen.reverse = i === chosen.column ? !chosen.reverse : Boolean(columns[i].down);
		chosen.column = i;
		draw();
	}

	function draw() {
		const words = chosen.filter.toLowerCase().split(/\s+/).filter(Boolean);
		const by = columns[chosen.column].by;
		const found = (nodes ?? []).filter((n) => words.every((w) => n.name.toLowerCase().includes(w) || n.state.includes(w)))
			.sort((a, b) => (chosen.reverse ? -1 : 1) * (by(a) < by(b) ? -1 : by(a) > by(b) ? 1 : 0) || (a.name < b.name ? -1 : 1));
		const list = chosen.all ? found : found.slice(0, SHOWN);
		const names = new Set(list.map((n) => n.name));
		heads.forEach((th, i) => {
			if (i === chosen.column) th.setAttribute("aria-sort", chosen.reverse ? "descending" : "ascending");
			else th.removeAttribute("aria-sort");
		});
		for (const [name, row] of rows) if (!names.has(name)) { row.remove(); rows.delete(name); }
		list.forEach((n, i) => {
			if (!rows.has(n.name)) rows.set(n.name, line(n));
			const row = rows.get(n.name);
			write(row, n);
			if (body.children[i] !== row) body.insertBefore(row, body.children[i] ?? null);
		});
		empty.hidden = list.length > 0;
		say(empty, nodes === null ? "Asking for them." : nodes.length ? "No node has this in its name or state." : "No node has joined. weir manager token create, on this host, prints a token for one.");
		more.hidden = list.length === found.length;
		say(more.firstChild, `Show the other ${found.length - list.length}`);
		say(count, nodes === null ? "" : found.length === nodes.length ? String(nodes.length) : `${found.length} of ${nodes.length}`);
	}

	const line = (n) => h("tr", {}, columns.map((c, i) => h("td", { class: cls(c) },
		i === 0 ? [h("a", { href: `#/node/${encodeURIComponent(n.name)}` }, n.name), h("div", {})]
			: c.resource ? [gauge(), h("div", { class: "soft" })] : null)));

	function write(row, n) {
		columns.forEach((c, i) => {
			const cell = row.children[i];
			if (i === 0) {
				const trouble = condition(n);
				say(cell.lastChild, trouble ? `${n.state}: ${trouble}` : n.state);
				cell.lastChild.className = trouble ? "problem" : "soft";
			} else if (c.resource) {
				measure(cell.firstChild, c.resource.reserved(n), c.resource.used(n), c.resource.label(n));
				say(cell.lastChild, c.resource.text(n));
			} else {
				say(cell, c.text(n));
			}
		});
	}

	const ends = [
		poll(path(["nodes"]), 2, (list) => { nodes = list; draw(); fill(wrong); }, (err) => fill(wrong, refusal(err, "manager"))),
		cluster.on((c) => { fill(head, summary(c)); draw(); }), // for how long a node was not heard of
	];
	return () => ends.forEach((end) => end());
}

// summary says how the cluster is.
function summary(c) {
	const a = c.automatic;
	return [facts([
		["Nodes", c.nodes_up === c.nodes ? String(c.nodes) : `${c.nodes_up} of ${c.nodes} heard of`],
		["Moves", c.running + c.waiting ? `${c.running} under way, ${c.waiting} waiting` : "none"],
		["Automatic moves", a.enabled ? `every ${a.interval_seconds} s` : "off"],
		["Bus", c.bus_up ? c.bus : `${c.bus}, not connected`],
		c.images ? ["Images", size(c.images.bytes)] : null,
		["Refused", String(c.refused)],
	]),
	!c.bus_up && h("p", { class: "problem" }, `The bus ${c.bus} cannot be reached: nothing is heard of nodes.`),
	a.enabled && a.last_result && h("p", { class: "soft" }, `The automatic mode looked last ${age((Date.now() - Date.parse(a.last)) / 1000)} ago: ${a.last_result}.`),
	c.authority.rotation && h("p", { class: "warning" }, `The authority is being replaced: ${c.authority.rotation.renewed} of ${c.authority.rotation.nodes} nodes have a new certificate.`)];
}
