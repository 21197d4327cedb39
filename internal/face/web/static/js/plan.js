// SPDX-License-Identifier: Apache-2.0
//
// The view of a plan: what would move where, and each node before and after. Nothing moves before
// it was looked at.

import { h, fill, facts, gauge, measure, once, refusal, table } from "./dom.js";
import { ask, path, session } from "./api.js";
import { age, percent, rate, size } from "./units.js";

// What was asked for last stays when the view is left.
const chosen = { max: "", above: "", algorithm: "local" };
let last = null; // the plan, and the request that it answers

export function planView(main) {
	const changer = session()?.role === "change";
	const result = h("div", { "aria-live": "polite" });
	const input = (id, props) => h("input", { id, value: chosen[id], oninput: (e) => { chosen[id] = e.target.value; }, ...props });
	const algorithm = h("select", { id: "algorithm", onchange: () => { chosen.algorithm = algorithm.value; } },
		["local", "genetic"].map((a) => h("option", { selected: a === chosen.algorithm }, a)));
	fill(main,
		h("div", { class: "head" }, h("h1", {}, "Plan")),
		h("section", { class: "card" },
			h("p", {}, "Which containers would have to move for the nodes to be loaded more evenly, and for every min to be held. A plan moves nothing."),
			changer ? h("form", { class: "controls", onsubmit: (e) => { e.preventDefault(); plan(); } },
				h("label", { for: "max" }, "At most ", input("max", { type: "number", min: "1", step: "1", placeholder: "any", size: "5" }), " moves"),
				h("label", { for: "above" }, "Leave nodes alone below ", input("above", { type: "number", min: "0", max: "100", step: "1", placeholder: "default", size: "7" }), " %"),
				h("label", { for: "algorithm" }, "Search ", algorithm),
				h("button", { type: "submit", class: "main" }, "Plan"))
				: h("p", { class: "warning" }, "Your session may look only. A plan is made by a member of group weir.")),
		result);

	const request = () => ({ algorithm: chosen.algorithm,
		...(chosen.max !== "" && { max_moves: Number(chosen.max) }), ...(chosen.above !== "" && { above: Number(chosen.above) / 100 }) });
	const send = (body, dry) => ask(path(["rebalance"], dry ? { dry_run: true } : {}), { method: "POST", body });

	async function plan() {
		fill(result, h("p", { class: "soft", role: "status" }, "Planning."));
		try {
			const body = request();
			last = { plan: await send(body, true), body };
			show(last.plan, last.body);
		} catch (err) {
			last = null;
			fill(result, h("section", { class: "card" }, refusal(err, "manager")));
		}
	}

	async function order(body) {
		try {
			last = null;
			show(await send(body, false));
		} catch (err) {
			fill(result, h("section", { class: "card" }, refusal(err, "manager")));
		}
	}

	// show draws a plan; body is the request that would order it.
	function show(p, body) {
		const change = (before, after) => (before === after ? before : `${before} → ${after}`);
		const spread = (s) => s.toFixed(4);
		const peak = (fit, what) => (fit.peak?.[what] === undefined ? null : percent(fit.peak[what]));
		const peaks = Object.keys(p.before.peak ?? {}).sort().map((what) => [`Highest ${what}`, change(peak(p.before, what), peak(p.after, what) ?? "-")]);
		const list = (title, texts) => texts.length > 0 && h("details", {}, h("summary", {}, `${title} (${texts.length})`), h("ul", {}, texts.map((t) => h("li", {}, t))));
		fill(result,
			h("section", { class: "card" },
				h("div", { class: "head" }, h("h2", {}, p.moves.length ? (p.moves.length === 1 ? "1 move" : `${p.moves.length} moves`) : "No move is worth it")),
				facts([
					["Unevenness S", change(spread(p.before.s), spread(p.after.s))], ...peaks,
					["Free for one min", change(rate(p.before.free_guaranteed_bps), rate(p.after.free_guaranteed_bps))],
					p.moves.length ? ["Takes", age(p.after.seconds)] : null, p.moves.length ? ["Travels", size(Math.round(p.after.bytes))] : null,
				]),
				p.calm > 0 && h("p", { class: "soft" }, `${p.calm} ${p.calm === 1 ? "node is" : "nodes are"} left alone: ${p.calm === 1 ? "it uses" : "they use"} at most ${percent(p.above)} of each resource.`),
				p.unknown.length > 0 && h("p", { class: "warning" }, `No present profile of ${p.unknown.join(", ")}: left as ${p.unknown.length === 1 ? "it is" : "they are"}.`),
				p.moves.length > 0 && table("Moves", ["Container", "From", "To", "S after", "Travels", "Takes", "Why"],
					p.moves.map((m) => [m.id ? h("a", { href: `#/moves/${m.id}` }, m.container) : m.container, m.from, m.to, spread(m.s), size(Math.round(m.bytes)), age(m.seconds), m.why]), [3, 4, 5]),
				list("Stay though they could move", p.held.map((x) => `${x.container} on ${x.node}: ${x.why}`)),
				list("Not accepted by nodes", p.refusals),
				p.applied ? h("p", { class: "done", role: "status" }, "The moves are ordered. ", h("a", { href: "#/moves" }, "See how they go"))
					: p.moves.length > 0 && h("div", { class: "buttons" }, h("button", { type: "button", class: "main", onclick: once(() => order(body)) }, "Order these moves"),
						h("button", { type: "button", onclick: () => { last = null; fill(result); } }, "Discard"))),
			p.nodes.length > 0 && h("section", { class: "card" }, h("h2", {}, "Nodes before and after"), nodes(p.nodes)));
	}

	// nodes draws each node twice.
	function nodes(list) {
		const pair = (n, of, name) => h("div", { class: "pair" }, [n.before, n.after].map((load, i) => {
			const bar = gauge();
			measure(bar, 0, of(load), `${name} ${i ? "after" : "before"}: ${percent(of(load))}`);
			return bar;
		}));
		const part = (n, of, name) => h("div", {}, pair(n, of, name), h("span", { class: "soft" }, both(percent(of(n.before)), percent(of(n.after)))));
		const both = (a, b) => (a === b ? a : `${a} → ${b}`);
		return table("Nodes before and after", ["Node", "CPU", "Memory", "Free for mins", "Containers"], list.map((n) => [
			n.name,
			part(n, (l) => l.cpu, `CPU of ${n.name}`), part(n, (l) => l.memory, `memory of ${n.name}`),
			both(rate(n.before.free_guaranteed_bps), rate(n.after.free_guaranteed_bps)),
			both(String(n.before.containers), String(n.after.containers)),
		]), [3, 4]);
	}

	if (last && changer) show(last.plan, last.body);
}
