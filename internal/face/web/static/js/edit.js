// SPDX-License-Identifier: Apache-2.0
//
// The editor of a workload's policy. Nothing is applied before its dry run was shown: what
// would change, and what the others would lose. What was applied can be undone.

import { h, fill, table, refusal } from "./dom.js";
import { ask, path } from "./api.js";
import { store } from "./store.js";
import { rate } from "./units.js";

const fields = [
	{ name: "weight", number: true, hint: "1 to 10000" },
	{ name: "min", hint: "20mbit, 25% or none" },
	{ name: "max", hint: "40mbit, 50% or none" },
	{ name: "group", hint: "a group, or none", more: true },
	{ name: "reserve", hint: "payload: 10mbit, or none", more: true },
	{ name: "quota", hint: "egress 500GB per month then max 5mbit", more: true },
	{ name: "zones", hint: "lan max 200mbit", more: true },
	{ name: "when", hint: "mon-fri 08:00-18:00 Europe/Berlin weight 8", more: true },
	{ name: "limit_packets", number: true, hint: "0 for the default", more: true },
	{ name: "dscp", hint: "ef, 46, or none", more: true },
];

// What the last change of this page did, for undo; it stays when the view is left.
let last = null;

export function editor(place, name, applied) {
	const inputs = new Map();
	const before = new Map(); // what the inputs were filled with
	const result = h("div", { "aria-live": "polite" });
	const undo = h("button", { type: "button", hidden: !(last && last.name === name), onclick: takeBack }, "Undo the last change");

	const written = (w, f) => String(w?.policy[f.name] ?? "") || (f.number ? "0" : "");
	const row = (f) => {
		const input = h("input", { id: `edit-${f.name}`, name: f.name, inputmode: f.number ? "numeric" : null, autocomplete: "off", spellcheck: "false", "aria-describedby": `hint-${f.name}`, oninput: () => fill(result) });
		inputs.set(f.name, input);
		return h("div", { class: "field" }, h("label", { for: `edit-${f.name}` }, f.name.replace("_", " ")), input, h("span", { class: "soft", id: `hint-${f.name}` }, f.hint));
	};
	fill(place,
		h("h2", {}, "Edit"),
		h("form", { onsubmit: (e) => { e.preventDefault(); preview(); } },
			fields.filter((f) => !f.more).map(row),
			h("details", {}, h("summary", {}, "More fields"), fields.filter((f) => f.more).map(row)),
			h("div", { class: "buttons" }, h("button", { type: "submit", class: "main" }, "Preview"), undo)),
		result);

	// load fills the inputs that the user has not touched.
	function load() {
		const w = store.workload(name);
		if (!w) return;
		for (const f of fields) {
			const input = inputs.get(f.name);
			if (input.value !== (before.get(f.name) ?? "")) continue;
			before.set(f.name, written(w, f));
			if (input.value !== before.get(f.name)) input.value = before.get(f.name);
		}
	}

	// wanted returns the fields that differ from what is in force.
	function wanted() {
		const change = {};
		for (const f of fields) {
			const text = inputs.get(f.name).value.trim();
			if (text === before.get(f.name)) continue;
			change[f.name] = f.number && /^\d+$/.test(text) ? Number(text) : text || (f.number ? 0 : "none");
		}
		return change;
	}

	const patch = (change, dry) => ask(path(["workloads", name, "policy"], dry ? { dry_run: true } : {}), { method: "PATCH", body: change });

	async function preview() {
		const change = wanted();
		if (!Object.keys(change).length) {
			fill(result, h("p", { class: "soft" }, "Nothing differs from what is in force."));
			return;
		}
		try {
			const r = await patch(change, true);
			const apply = h("button", { type: "button", class: "main", onclick: () => commit(change) }, "Apply");
			fill(result,
				h("h3", {}, "This would change"),
				r.changes.length ? h("ul", {}, r.changes.map((c) => h("li", {}, c.what))) : h("p", {}, "Nothing in force: it would only be stored."),
				effects(r.effects ?? [], name),
				h("div", { class: "buttons" }, apply, h("button", { type: "button", onclick: () => { reset(); fill(result); } }, "Discard")));
			apply.focus();
		} catch (err) {
			refused(err);
		}
	}

	function reset() {
		for (const [field, input] of inputs) input.value = before.get(field);
	}

	async function commit(change) {
		const w = store.workload(name);
		const stored = Object.fromEntries(fields.filter((f) => w.origin[f.name] === "set").map((f) => [f.name, w.policy[f.name] || (f.number ? 0 : "none")]));
		const begun = performance.now();
		try {
			const r = await patch(change, false);
			const ms = Math.round(performance.now() - begun);
			last = { name, fields: Object.keys(change), stored, odd: odd(w) };
			undo.hidden = false;
			settle(r.workload);
			fill(result, h("p", { class: "done", role: "status" }, `Applied in ${ms} ms.`));
			applied();
		} catch (err) {
			refused(err);
		}
	}

	// odd lists fields set at run time that this editor does not have: a reset would lose them.
	const odd = (w) => Object.keys(w.origin).filter((o) => w.origin[o] === "set" && !fields.some((f) => f.name === o));

	// takeBack drops what is set at run time, and sets again what was set before.
	async function takeBack() {
		const { stored, fields: changed, odd: others } = last;
		// A reset cannot keep the fields that are not known here; then the old values are set.
		const body = others.length ? Object.fromEntries(changed.map((f) => [f, stored[f] ?? (fields.find((x) => x.name === f).number ? 0 : "none")])) : { reset: true, ...stored };
		try {
			const r = await patch(body, false);
			last = null;
			undo.hidden = true;
			settle(r.workload);
			fill(result, h("p", { class: "done", role: "status" }, "The change was undone."));
			applied();
		} catch (err) {
			refused(err);
		}
	}

	function settle(w) {
		for (const f of fields) {
			before.set(f.name, written(w, f));
			inputs.get(f.name).value = before.get(f.name);
		}
	}

	function refused(err) {
		fill(result, refusal(err, "agent"));
		inputs.get(err.field)?.focus();
	}

	const off = store.on(() => { if (place.isConnected) load(); else off(); });
}

// effects tells what a change does to everybody: those that lose most first.
function effects(list, name) {
	if (!list.length) return h("p", {}, "Nobody's rate would differ.");
	const several = new Set(list.map((e) => `${e.device} ${e.direction}`)).size > 1;
	const sign = (before, after) => {
		const d = after - before;
		return Math.abs(d) < 1 ? h("span", { class: "soft" }, rate(after)) : [`${rate(before)} → ${rate(after)} `, h("span", { class: d < 0 ? "loss" : "gain" }, `${d < 0 ? "−" : "+"}${rate(Math.abs(d))}`)];
	};
	const shown = list.slice(0, 30);
	if (!shown.some((e) => e.name === name)) shown.push(...list.filter((e) => e.name === name));
	return [
		h("h3", {}, "Who gets less, who more"),
		table("Effects", ["Workload", "With the traffic of now", "When all want all they can get"],
			shown.map((e) => [
				`${e.group ? "group " : ""}${e.name}${several ? ` (${e.device} ${e.direction})` : ""}`,
				sign(e.now_before_bps, e.now_after_bps), sign(e.busy_before_bps, e.busy_after_bps)])),
		list.length > shown.length && h("p", { class: "soft" }, `and ${list.length - shown.length} more`),
	];
}
