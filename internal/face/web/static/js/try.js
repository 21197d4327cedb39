// SPDX-License-Identifier: Apache-2.0
//
// A link to play with. Whoever shows it has it divided, by the agent (GET /v1/divide) or by the
// same code in the browser: the page has no formula of its own, so what is shown here is what a
// host does.

import { h, fill, say } from "./dom.js";
import { Problem } from "./api.js";
import { colour } from "./chart.js";
import { rate, limit } from "./units.js";

const CAPACITY = 100; // Mbit/s

const examples = {
	"By weight": [[1, 0, 0], [2, 0, 0], [3, 0, 0]],
	"With a min": [[1, 30, 0], [2, 0, 0], [3, 0, 0]],
	"With a max": [[1, 30, 0], [2, 0, 0], [3, 0, 15]],
	"One is idle": [[1, 30, 0], [2, 0, 0], [3, 0, 0, false]],
	"Too many promises": [[1, 60, 0], [2, 50, 0], [3, 0, 0]],
};

const names = ["web", "batch", "backup", "phone"];

const reasons = {
	min: (w, s, d) => `its min of ${limit(w.min * 1e6)} is more than the ${rate(d.level_bps * w.weight)} that its weight would give it`,
	max: (w) => `its max of ${limit(w.max * 1e6)} holds it down; what it leaves goes to the others`,
	share: (w, s, d) => `its weight of ${w.weight}, at ${rate(d.level_bps)} for each unit of weight`,
	idle: () => "it sends nothing, and what it leaves goes to the others",
	demand: () => "it wants no more",
};

// What is set stays when the view is left.
let workloads = load("With a min");

function load(example) {
	return examples[example].map(([weight, min, max, active = true], i) => ({ name: names[i], weight, min, max, active }));
}

// tryView fills main. divideLink takes the query of /v1/divide and returns its answer, or throws a Problem.
export function tryView(main, divideLink) {
	let asked = 0;
	const bar = h("div", { class: "division", role: "img" });
	const refused = h("p", { class: "warning", role: "status" });
	const cards = h("div", { class: "trial" });
	fill(main,
		h("h1", {}, "Try"),
		h("p", {}, "A link of 100 Mbit/s that exists on this page only. Every workload that sends wants all it can get. Move the sliders."),
		h("div", { class: "buttons", role: "group", "aria-label": "Examples" }, Object.keys(examples).map((e) => h("button", { type: "button", onclick: () => { workloads = load(e); build(); } }, e))),
		h("section", { class: "card" }, bar, refused),
		cards,
		h("section", { class: "card" }, h("h2", {}, "The rule"),
			h("pre", { tabindex: "0" }, "min(max, max(min, L × weight))     with L such that the link is full"),
			h("p", {}, "Each workload gets L times its weight, but no less than its min and no more than its max. L rises until the link is full, so no capacity is wasted.")));

	function build() {
		fill(cards, workloads.map((w, i) => {
			const slider = (field, max, label) => {
				const id = `try-${i}-${field}`;
				const out = h("output", { for: id });
				const input = h("input", { type: "range", id, min: field === "weight" ? 1 : 0, max, value: String(w[field]), oninput: () => {
					w[field] = Number(input.value);
					write();
					divide();
				} });
				const write = () => {
					say(out, field === "weight" ? String(w.weight) : limit(w[field] * 1e6));
					input.setAttribute("aria-valuetext", out.textContent);
				};
				write();
				return h("div", { class: "slider" }, h("label", { for: id }, label), input, out);
			};
			const swatch = h("span", { class: "swatch" });
			swatch.style.background = colour(i);
			return h("section", { class: "card" },
				h("div", { class: "head" }, swatch, h("h2", {}, w.name),
					h("label", { class: "push" }, h("input", { type: "checkbox", checked: w.active, onchange: (e) => { w.active = e.target.checked; divide(); } }), " sends")),
				h("p", { class: "big" }, "..."), h("p", { class: "soft why" }),
				slider("weight", 10, "weight"), slider("min", CAPACITY, "min"), slider("max", CAPACITY, "max"));
		}), workloads.length < names.length && h("button", { type: "button", class: "add", onclick: () => { workloads.push({ name: names[workloads.length], weight: 1, min: 0, max: 0, active: true }); build(); } }, "Another workload"));
		divide();
	}

	async function divide() {
		const turn = ++asked;
		const query = new URLSearchParams({ capacity: `${CAPACITY}mbit` });
		for (const w of workloads) query.append("workload", `${w.name},weight=${w.weight},min=${w.min ? `${w.min}mbit` : "none"},max=${w.max ? `${w.max}mbit` : "none"}${w.active ? "" : ",demand=none"}`);
		let d;
		try {
			d = await divideLink(query);
		} catch (err) {
			if (turn === asked) say(refused, err instanceof Problem ? `Weir refuses this: ${err.message}.` : "The agent cannot be reached.");
			return;
		}
		if (turn !== asked) return; // a later answer is on its way
		say(refused, d.refused ? `Weir refuses this: ${d.refused}. Below is what would be left of it.` : "");
		if (bar.children.length !== workloads.length) fill(bar, workloads.map((w, i) => {
			const part = h("div", {}, h("span", {}, w.name), h("span", {}));
			part.style.background = colour(i);
			return part;
		}));
		bar.setAttribute("aria-label", d.shares.map((s) => `${s.name} ${rate(s.ideal_bps)}`).join(", "));
		d.shares.forEach((s, i) => {
			bar.children[i].style.width = `${s.ideal_bps / CAPACITY / 1e4}%`;
			bar.children[i].firstChild.hidden = bar.children[i].lastChild.hidden = s.ideal_bps < 6e6;
			say(bar.children[i].lastChild, rate(s.ideal_bps));
			const card = cards.children[i];
			say(card.querySelector(".big"), rate(s.ideal_bps));
			say(card.querySelector(".why"), reasons[s.binds](workloads[i], s, d));
		});
	}
	build();
}
