// SPDX-License-Identifier: Apache-2.0
//
// The audit log: who changed what, and what was refused.

import { h, fill, say } from "./dom.js";
import { ask, path, Problem } from "./api.js";
import { stamp } from "./units.js";

const times = { "1 hour": 3600, "24 hours": 86400, "7 days": 604800, "30 days": 2592000 };

export function changesView(main, [object]) {
	let timer;
	let over = false; // another view is shown
	const since = h("select", { onchange: load }, Object.keys(times).map((t) => h("option", { selected: t === "24 hours" }, t)));
	const name = h("input", { type: "search", placeholder: "exact name", value: object ?? "", onchange: load });
	const result = h("select", { onchange: load }, ["all", "done", "refused", "failed"].map((t) => h("option", {}, t)));
	const count = h("span", { class: "soft", role: "status" });
	const list = h("div", {});
	fill(main,
		h("div", { class: "head" }, h("h1", {}, "Changes"), count),
		h("div", { class: "controls" }, h("label", {}, "Last ", since), h("label", {}, "Object ", name), h("label", {}, "Result ", result)),
		h("section", { class: "card flush" }, list));
	let shown = "";

	async function load() {
		clearTimeout(timer);
		if (document.hidden) {
			timer = setTimeout(load, 5000);
			return;
		}
		try {
			const from = new Date(Date.now() - times[since.value] * 1000).toISOString().replace(/\.\d+Z/, "Z");
			const query = { since: from, limit: 500, ...(name.value.trim() && { object: name.value.trim() }) };
			const got = (await ask(path(["audit"], query))).filter((e) => result.value === "all" || e.result === result.value).toReversed();
			const text = JSON.stringify(got);
			if (text !== shown) fill(list, got.length ? entries(got, true) : h("p", { class: "soft pad" }, "No change in this time."));
			shown = text;
			say(count, got.length === 500 ? "the newest 500" : String(got.length));
		} catch (err) {
			if (err instanceof Problem && err.status !== 401) fill(list, h("p", { class: "problem pad" }, err.message));
		}
		if (!over) timer = setTimeout(load, 5000);
	}
	load();
	return () => {
		over = true;
		clearTimeout(timer);
	};
}

// entries makes the table of entries; withObject has the column of the object.
export function entries(list, withObject) {
	const heads = ["Time", "Who", "Action", withObject && "Object", "Result", "What"].filter(Boolean);
	return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Changes" }, h("table", { class: "log" },
		h("thead", {}, h("tr", {}, heads.map((t) => h("th", { scope: "col" }, t)))),
		h("tbody", {}, list.map((e) => h("tr", {},
			h("td", { class: "time" }, stamp(Date.parse(e.time) / 1000)),
			h("td", {}, author(e.who)),
			h("td", {}, e.action),
			withObject && h("td", {}, e.object ?? ""),
			h("td", {}, h("span", { class: `result ${e.result}` }, e.result), e.omitted ? ` and ${e.omitted} more` : ""),
			h("td", {}, what(e)))))));
}

// author names who made a change, as weir audit does.
function author(w) {
	let name = w.user || w.node || w.address;
	if (!name) return w.via;
	if (w.login) name = `${w.login} as ${name}`;
	return w.via === "socket" ? name : `${w.via} ${name}`;
}

const text = (v) => (v === undefined || v === "" ? "none" : typeof v === "object" ? JSON.stringify(v) : String(v));

// what says which fields differ.
function what(e) {
	const parts = [];
	if (e.before || e.after) {
		const [was, is] = [e.before ?? {}, e.after ?? {}];
		for (const field of new Set([...Object.keys(was), ...Object.keys(is)])) {
			parts.push(e.before ? `${field} ${text(was[field])} → ${text(is[field])}` : `${field} ${text(is[field])}`);
		}
	} else if (e.change && Object.keys(e.change).length) {
		parts.push(JSON.stringify(e.change));
	}
	if (e.reason) parts.push(e.reason);
	return parts.join(", ");
}
