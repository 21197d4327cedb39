// SPDX-License-Identifier: Apache-2.0
//
// The view of one workload: what it does, why, what is promised to it and by whom; and its
// editor.

import { h, fill, say, facts, table } from "./dom.js";
import { ask, path, session, Problem } from "./api.js";
import { store, nameOf } from "./store.js";
import { Chart, colour } from "./chart.js";
import { rate, limit, percent, delay, size, drops, kept, direction, amount } from "./units.js";
import { entries } from "./changes.js";
import { editor } from "./edit.js";

const spans = [{ name: "1 min", seconds: 60 }, { name: "10 min", seconds: 600 }, { name: "1 h", seconds: 3600 }];

// Where a field of a policy comes from, in words.
const origins = {
	default: "the default", found: "found on the device", allocation: "an allocation", config: "weir.yaml",
	label: "a label", set: "set at run time", when: "the time of the week",
};

export function workloadView(main, [name]) {
	let span = spans[0];
	let policyShown = "";
	let busy = false;

	const heading = h("h1", {}, name);
	const state = h("p", { class: "soft" });
	const traffic = h("div", {});
	const plots = h("div", {});
	const why = h("div", { class: "sentences" }, h("p", { class: "soft" }, "..."));
	const inside = h("div", {});
	const policy = h("div", {});
	const log = h("div", {});
	const buttons = spans.map((s) => h("button", { type: "button", "aria-pressed": String(s === span), onclick: () => {
		span = s;
		buttons.forEach((b, i) => b.setAttribute("aria-pressed", String(spans[i] === s)));
		draw();
	} }, s.name));
	const edit = h("section", { class: "card" });
	fill(main,
		h("div", { class: "head" }, heading, state),
		h("div", { class: "columns" },
			h("div", {},
				h("section", { class: "card" },
					h("div", { class: "head" }, h("h2", {}, "Rate"), h("div", { class: "buttons", role: "group", "aria-label": "Time" }, buttons)),
					plots, h("p", { class: "soft" }, "Area: its rate. Dashed: what weight, min and max give it now. Lines: min (green), max (red)."), traffic),
				h("section", { class: "card" }, h("h2", {}, "Why this rate?"), why)),
			h("div", {},
				h("section", { class: "card" }, h("h2", {}, "Policy"), policy),
				edit)),
		h("section", { class: "card", hidden: true }, inside),
		h("section", { class: "card" }, h("h2", {}, "What changed it"), log));

	const charts = new Map(); // by link's name

	function update() {
		const w = store.workload(name);
		if (!w) {
			say(state, "is not there (any longer)");
			return;
		}
		say(state, [w.kind, w.note ? `${w.state}: ${w.note}` : w.state, w.id?.slice(0, 12), w.devices.join(", ")].filter(Boolean).join(" · "));
		fill(traffic, w.links.map((l) => figures(w, l)));
		draw();
		const text = JSON.stringify([w.policy, w.origin]);
		if (text !== policyShown) {
			policyShown = text;
			fill(policy, table("Policy", ["Field", "Value", "From"], fieldsOf(w), []), (w.warnings ?? []).map((t) => h("p", { class: "warning" }, t)));
			changed();
		}
		quota(w);
	}

	function figures(w, l) {
		return h("div", {}, w.links.length > 1 && h("h3", {}, `${l.device} ${direction(l.direction)}`), facts([
			["Rate", rate(l.rate_bps)], ["Ideal", rate(l.ideal_bps)], ["Of the link", percent(l.share)],
			["Min", limit(l.min_bps)], ["Max", limit(l.max_bps)],
			["Backlog", l.backlog_packets ? `${l.backlog_packets} packets, ${size(l.backlog_bytes)}` : "none"],
			["Drops", drops(l.drops, l.drops_per_second)],
			l.delay && ["Delay in the queue", delay(l.delay)],
			l.score && ["Promise kept", h("span", { title: l.score.text }, kept(l.score.kept))],
			l.goodput_bps != null ? ["Goodput", rate(l.goodput_bps)] : null,
		]));
	}

	function draw() {
		const w = store.workload(name);
		const rows = store.window(span.seconds);
		if (!w || !rows.length) return;
		for (const [i, l] of w.links.entries()) {
			const series = store.series(nameOf(l), w.key);
			if (!series) continue;
			if (!charts.has(nameOf(l))) {
				const plot = h("div", { class: "plot" });
				plots.append(plot);
				charts.set(nameOf(l), new Chart(plot, { height: 200, label: `Rate of ${name} on ${l.device} ${l.direction} over time` }));
			}
			const css = getComputedStyle(main);
			const lines = [
				l.min_bps && { name: "min", value: l.min_bps, colour: css.getPropertyValue("--good") },
				l.max_bps && { name: "max", value: l.max_bps, colour: css.getPropertyValue("--capacity") },
			].filter(Boolean);
			const values = rows.map((r) => series.rate(r));
			charts.get(nameOf(l)).draw({
				times: rows.map((r) => store.times[r]), lines, top: 1e6,
				bands: [{ name, colour: colour(i), rate: values, ideal: rows.map((r) => series.ideal(r)), gap: values.map((v) => v !== v) }],
			});
		}
	}

	// --- what needs requests of its own ---

	async function slow() {
		if (busy || document.hidden || !store.workload(name)) return;
		busy = true;
		try {
			const e = await ask(path(["workloads", name, "explain"]));
			fill(why, e.links.map((l) => [
				e.links.length > 1 && h("h3", {}, `${l.device} ${direction(l.direction)}`), l.text.map((t) => h("p", {}, t))]));
			await queues();
		} catch {
			// the frame says that the agent is away
		} finally {
			busy = false;
		}
	}

	const flows = h("div", {});
	const measure = h("button", { type: "button", onclick: async () => {
		measure.disabled = true;
		try {
			const f = await ask(path(["workloads", name, "flows"]));
			fill(flows, f.flows.length ? table("Connections", ["Protocol", "Local", "Remote", "Queue", "Sent", "Received", "Sent again"],
				f.flows.map((x) => [x.protocol, x.local, x.remote, x.queue ?? "-", rate(x.sent_bps), rate(x.received_bps), rate(x.resent_bps)]), [4, 5, 6])
				: h("p", { class: "soft" }, "No connection moved payload in this second."));
		} catch (err) {
			fill(flows, h("p", { class: "problem" }, err.message));
		}
		measure.disabled = false;
	} }, "Measure connections for a second");

	async function queues() {
		const w = store.workload(name);
		const lists = w.links.filter((l) => l.queues?.length);
		const loops = w.policy.reserve ? (await ask(path(["workloads", name, "control"]))).loops : [];
		inside.parentElement.hidden = !lists.length && !loops.length;
		if (inside.parentElement.hidden) return;
		fill(inside,
			lists.map((l) => [h("h2", {}, `Queues, ${l.device} ${l.direction}`), table("Queues", ["Queue", "Rate", "Offered", "Backlog", "Delay", "Drops"],
				l.queues.map((q) => [q.name, rate(q.rate_bps), rate(q.offered_bps), `${q.backlog_packets} packets`, delay(q.delay) ?? "-", drops(q.drops, q.drops_per_second)]), [1, 2])]),
			loops.length > 0 && [h("h2", {}, "Reservation"), table("Controllers", ["Link", "Queue", "Target", "Goodput", "On the wire", "State", "Why"],
				loops.map((c) => [`${c.device} ${c.direction}`, c.queue ?? "-", rate(c.target_bps), c.goodput_bps == null ? "-" : rate(c.goodput_bps), rate(c.wire_bps), c.mode, c.why]), [2, 3, 4]),
				measure, flows]);
	}

	const meter = h("div", {});
	traffic.after(meter);
	function quota(w) {
		if (!w.quota) return fill(meter);
		const used = Math.min(1, w.quota.used_part);
		return fill(meter, h("h3", {}, "Quota"), h("progress", { max: "1", value: String(used), "aria-label": "Part of the quota that is used" }),
			h("p", {}, w.quota.text));
	}

	async function changed() {
		try {
			const list = await ask(path(["audit"], { object: name, limit: 20 }));
			fill(log, list.length ? entries(list.toReversed(), false) : h("p", { class: "soft" }, "Nothing is in the audit log."));
		} catch (err) {
			if (err instanceof Problem) fill(log, h("p", { class: "problem" }, err.message));
		}
	}

	if (session()?.role === "change") editor(edit, name, changed);
	else fill(edit, h("h2", {}, "Edit"), h("p", { class: "soft" }, "This session may look and change nothing. A member of group weir may: weir web."));

	const off = store.on(update);
	slow();
	const timer = setInterval(slow, 2000);
	return () => {
		off();
		clearInterval(timer);
		for (const c of charts.values()) c.destroy();
	};
}

// fieldsOf lists the fields of a policy that say something, with their origins.
export function fieldsOf(w) {
	const rows = [];
	const add = (fields, prefix) => {
		for (const [field, value] of Object.entries(fields ?? {})) {
			if (field === "ingress") add(value, "ingress ");
			else if (value !== "" && value !== 0 && !(Array.isArray(value) && !value.length)) {
				const from = w.origin[prefix ? `ingress.${field}` : field] ?? w.origin[field];
				rows.push([`${prefix}${field}`, typeof value === "object" ? JSON.stringify(value) : amount(String(value)), origins[from] ?? from ?? "-"]);
			}
		}
	};
	add(w.policy, "");
	return rows;
}
