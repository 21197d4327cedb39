// SPDX-License-Identifier: Apache-2.0
//
// The view of one node: its containers, and moves of them to others. No move is ordered before a
// dry run has shown that nothing hinders it.

import { h, fill, say, facts, gauge, measure, refusal, table } from "./dom.js";
import { ask, path, session } from "./api.js";
import { poll } from "./poll.js";
import { condition, resources } from "./nodes.js";
import { age, limit, rate, size } from "./units.js";

export function nodeView(main, [name]) {
	let nodes = [];
	const heading = h("h1", {}, name ?? "");
	const figures = h("div", {});
	const list = h("div", {});
	const mover = h("div", { "aria-live": "polite" });
	fill(main,
		h("div", { class: "head" }, heading, h("a", { href: "#/nodes" }, "all nodes")),
		h("section", { class: "card" }, figures),
		h("section", { class: "card" }, h("h2", {}, "Containers"), list, mover));

	function show() {
		const n = nodes.find((x) => x.name === name);
		if (!n) {
			fill(figures, h("p", { class: "problem" }, `No node is called ${name}.`));
			return;
		}
		const trouble = condition(n);
		const bars = resources.map((r) => {
			const bar = gauge();
			measure(bar, r.reserved(n), r.used(n), r.label(n));
			return h("div", { class: "resource" }, h("span", {}, r.name), bar, h("span", { class: "soft" }, r.label(n)));
		});
		fill(figures,
			trouble && h("p", { class: "problem" }, `${n.state}: ${trouble}`),
			bars,
			facts([
				["Address", n.address || "-"], ["Agent", n.weir || "-"], ["Kernel", n.kernel || "-"],
				["Engines", n.engines.join(", ") || "none"],
				["Checkpoints", n.criu ? `CRIU ${n.criu}` : "not possible here"],
				["Heard of", n.heard ? `${age((Date.now() - Date.parse(n.heard)) / 1000)} ago` : "never"],
			]),
			n.missing.length > 0 && h("p", { class: "warning" }, `Not measured there: ${n.missing.join(", ")}.`));
	}

	function containers(all) {
		const mine = all.filter((c) => c.node === name);
		const rows = mine.map((c) => [
			c.name, c.image, rate(c.transmit_bps), String(c.weight ?? "-"),
			c.refused_min_bps ? h("span", { class: "problem" }, `${limit(c.refused_min_bps)} refused`) : limit(c.min_bps), limit(c.max_bps),
			c.cpu_cores.toFixed(2), size(c.memory_bytes),
			c.move ? h("a", { href: `#/moves/${c.move}` }, "on its way") : c.pinned ? "pinned"
				: session()?.role === "change" ? h("button", { type: "button", class: "small", "aria-label": `Move ${c.name}`, onclick: () => choose(c) }, "Move") : "",
		]);
		fill(list, rows.length ? table("Containers", ["Name", "Image", "Sends", "Weight", "Min", "Max", "Cores", "Memory", "Moves"], rows, [2, 3, 4, 5, 6, 7])
			: h("p", { class: "soft" }, "No container runs there."));
	}

	// choose asks where a container is to go, and whether it can.
	function choose(c) {
		const to = h("select", { id: "move-to", onchange: () => fill(result) }, nodes.filter((n) => n.name !== name && n.state === "up").map((n) => h("option", {}, n.name)));
		const approach = h("select", { id: "move-approach", onchange: () => fill(result) }, ["fastest", "layer", "commit", "export"].map((a) => h("option", {}, a)));
		const result = h("div", {});
		const request = () => ({ container: `${name}/${c.name}`, to: to.value, ...(approach.value !== "fastest" && { approach: approach.value }) });
		const send = (dry) => ask(path(["moves"], dry ? { dry_run: true } : {}), { method: "POST", body: request() });
		const close = () => fill(mover);
		fill(mover,
			h("h3", {}, `Move ${c.name}`),
			h("form", { class: "controls", onsubmit: async (e) => {
				e.preventDefault();
				fill(result, h("p", { class: "soft" }, "Asking both nodes."));
				try {
					const mv = await send(true);
					if (mv.error) {
						fill(result, h("p", { class: "problem", role: "alert" }, `It cannot move to ${mv.to}: ${mv.error}`));
						return;
					}
					const go = h("button", { type: "button", class: "main", onclick: order }, `Move ${c.name} to ${mv.to}`);
					fill(result, h("p", {}, `Nothing hinders the move of ${c.name} from ${mv.from} to ${mv.to}. It is frozen while the last of its memory travels.`),
						h("div", { class: "buttons" }, go, h("button", { type: "button", onclick: close }, "Leave it")));
					go.focus();
				} catch (err) {
					fill(result, refusal(err, "manager"));
				}
			} },
			h("label", { for: "move-to" }, "To ", to), h("label", { for: "move-approach" }, "Its files by ", approach),
			h("button", { type: "submit", class: "main" }, "Preview")), result);
		to.focus();

		async function order() {
			try {
				const mv = await send(false);
				location.hash = `#/moves/${mv.id}`;
			} catch (err) {
				fill(result, refusal(err, "manager"));
			}
		}
	}

	say(heading, name ?? "");
	const ends = [
		poll(path(["nodes"]), 2, (all) => { nodes = all; show(); }),
		poll(path(["containers"]), 2, containers),
	];
	return () => ends.forEach((end) => end());
}
