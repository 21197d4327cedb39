// SPDX-License-Identifier: Apache-2.0
//
// The view of one node: its containers, and moves of them to others. No move is ordered before a
// dry run has shown that nothing hinders it.

import { h, fill, say, facts, gauge, measure, once, refusal } from "./dom.js";
import { ask, path, session } from "./api.js";
import { poll } from "./poll.js";
import { condition, resources } from "./nodes.js";
import { age, limit, rate, size } from "./units.js";

// The columns of a container; "Moves" comes after them.
const columns = [
	{ name: "Name", text: true, of: (c) => c.name },
	{ name: "Image", text: true, of: (c) => c.image },
	{ name: "Sends", of: (c) => rate(c.transmit_bps) },
	{ name: "Weight", of: (c) => String(c.weight ?? "-") },
	{ name: "Min", of: (c) => (c.refused_min_bps ? `${limit(c.refused_min_bps)} refused` : limit(c.min_bps)) },
	{ name: "Max", of: (c) => limit(c.max_bps) },
	{ name: "Cores", of: (c) => c.cpu_cores.toFixed(2) },
	{ name: "Memory", of: (c) => size(c.memory_bytes) },
];
const MIN = 4;

export function nodeView(main, [name]) {
	const rows = new Map(); // by id: the row of a container
	let nodes = [];
	const heading = h("h1", {}, name ?? "");
	const figures = h("div", {});
	const body = h("tbody", {});
	const none = h("p", { class: "soft", hidden: true }, "No container runs there.");
	const wrong = h("div", {});
	const mover = h("div", { "aria-live": "polite" });
	fill(main,
		h("div", { class: "head" }, heading, h("a", { href: "#/nodes" }, "all nodes")),
		h("section", { class: "card" }, figures),
		h("section", { class: "card" }, h("h2", {}, "Containers"), wrong,
			h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Containers" }, h("table", {},
				h("thead", {}, h("tr", {}, columns.map((c) => h("th", { scope: "col", class: c.text ? null : "number" }, c.name)), h("th", { scope: "col" }, "Moves"))), body)),
			none, mover));

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
		none.hidden = mine.length > 0;
		for (const [id, row] of rows) if (!mine.some((c) => c.id === id)) { row.remove(); rows.delete(id); }
		for (const c of mine) {
			if (!rows.has(c.id)) {
				const row = h("tr", {}, columns.map((col) => h("td", { class: col.text ? null : "number" })), h("td", {},
					h("a", {}, "on its way"), h("span", {}, "pinned"), h("button", { type: "button", class: "small", "aria-label": `Move ${c.name}` }, "Move")));
				rows.set(c.id, row);
				body.append(row);
			}
			const row = rows.get(c.id);
			columns.forEach((col, i) => say(row.children[i], col.of(c)));
			row.children[MIN].classList.toggle("problem", Boolean(c.refused_min_bps));
			const [link, pinned, button] = row.lastChild.children;
			link.hidden = !c.move;
			link.href = `#/moves/${c.move}`;
			pinned.hidden = Boolean(c.move) || !c.pinned;
			button.hidden = Boolean(c.move) || Boolean(c.pinned) || session()?.role !== "change";
			// Two of one name, of two engines, are told apart by their ids.
			button.onclick = () => choose(c, mine.filter((x) => x.name === c.name).length > 1 ? c.id : `${name}/${c.name}`);
		}
	}

	// choose asks where a container is to go, and whether it can.
	function choose(c, container) {
		const targets = nodes.filter((n) => n.name !== name && n.state === "up");
		const to = h("select", { id: "move-to", onchange: () => fill(result) }, targets.map((n) => h("option", {}, n.name)));
		const approach = h("select", { id: "move-approach", onchange: () => fill(result) }, ["fastest", "layer", "commit", "export"].map((a) => h("option", {}, a)));
		const result = h("div", {});
		const request = () => ({ container, to: to.value, ...(approach.value !== "fastest" && { approach: approach.value }) });
		const send = (body, dry) => ask(path(["moves"], dry ? { dry_run: true } : {}), { method: "POST", body });
		const close = () => fill(mover);
		if (!targets.length) {
			fill(mover, h("p", { class: "problem", role: "alert" }, "No other node is up."));
			return;
		}
		fill(mover,
			h("h3", {}, `Move ${c.name}`),
			h("form", { class: "controls", onsubmit: (e) => { e.preventDefault(); preview(); } },
				h("label", { for: "move-to" }, "To ", to), h("label", { for: "move-approach" }, "Its files by ", approach),
				h("button", { type: "submit", class: "main" }, "Preview")), result);
		to.focus();

		async function preview() {
			const body = request();
			const current = () => JSON.stringify(request()) === JSON.stringify(body); // the answer is about what is chosen
			fill(result, h("p", { class: "soft", role: "status" }, "Asking both nodes."));
			try {
				const mv = await send(body, true);
				if (!current()) return;
				if (mv.error) {
					fill(result, h("p", { class: "problem", role: "alert" }, `It cannot move to ${mv.to}: ${mv.error}`));
					return;
				}
				const go = h("button", { type: "button", class: "main", onclick: once(() => order(body)) }, `Move ${c.name} to ${mv.to}`);
				fill(result, h("p", {}, `Nothing hinders the move of ${c.name} from ${mv.from} to ${mv.to}. It is frozen while the last of its memory travels.`),
					h("div", { class: "buttons" }, go, h("button", { type: "button", onclick: close }, "Leave it")));
				go.focus();
			} catch (err) {
				if (current()) fill(result, refusal(err, "manager"));
			}
		}

		async function order(body) {
			try {
				location.hash = `#/moves/${(await send(body, false)).id}`;
			} catch (err) {
				fill(result, refusal(err, "manager"));
			}
		}
	}

	const failed = (err) => fill(wrong, refusal(err, "manager"));
	const ends = [
		poll(path(["nodes"]), 2, (all) => { nodes = all; show(); }, failed),
		poll(path(["containers"]), 2, (all) => { containers(all); fill(wrong); }, failed),
	];
	return () => ends.forEach((end) => end());
}
