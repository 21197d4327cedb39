// SPDX-License-Identifier: Apache-2.0
//
// The view of moves: those under way with their steps as they come, and those that have ended.

import { h, fill, say, facts, once, refusal, table } from "./dom.js";
import { ask, path, session } from "./api.js";
import { poll } from "./poll.js";
import { age, size, stamp } from "./units.js";

const open = new Set(["waiting", "ordered", "running", "lost"]);
const bad = new Set(["failed", "rolled-back", "refused", "expired", "lost"]);

const SHOWN = 200; // of those that have ended; the manager keeps more

export function movesView(main, [id]) {
	const cards = new Map(); // by id: the card of a move under way
	const count = h("span", { class: "soft", role: "status" });
	const live = h("div", {}), wrong = h("div", {});
	const one = h("div", {});
	let drawn = ""; // what is drawn of those that have ended
	const ended = h("div", {});
	fill(main,
		h("div", { class: "head" }, h("h1", {}, "Moves"), count),
		wrong, one, live,
		h("section", { class: "card" }, h("h2", {}, "Ended"), ended));

	function update(list) {
		const moves = list.filter((m) => !m.dry_run);
		const going = moves.filter((m) => open.has(m.state)), past = moves.filter((m) => !open.has(m.state));
		say(count, going.length ? `${going.length} under way` : "none under way");
		for (const [key, card] of cards) if (!going.some((m) => m.id === key)) { card.remove(); cards.delete(key); }
		for (const m of going) {
			if (!cards.has(m.id)) {
				cards.set(m.id, h("section", { class: "card" }, h("div", {}), h("div", { "aria-live": "polite" })));
				live.append(cards.get(m.id));
			}
			const [body, cancel] = cards.get(m.id).children;
			fill(body, describe(m));
			if (!cancel.children.length && session()?.role === "change" && !m.cancel) fill(cancel, canceller(m, cancel));
		}
		fill(wrong);
		const text = JSON.stringify(past);
		if (text === drawn) return;
		drawn = text;
		const asked = past.find((m) => m.id === id);
		fill(one, asked && h("section", { class: "card" }, describe(asked)));
		fill(ended, past.length ? table("Moves that have ended", ["Container", "From", "To", "State", "Ended", "Down", "Travelled", "Why"], past.slice(0, SHOWN).map((m) => [
			h("a", { href: `#/moves/${m.id}` }, m.container), m.from, m.to, state(m), m.ended ? stamp(Date.parse(m.ended) / 1000) : "-",
			down(m), size(m.bytes), m.error || m.guarantee || m.why,
		]), [5, 6]) : h("p", { class: "soft" }, "None yet."),
		past.length > SHOWN && h("p", { class: "soft" }, `and ${past.length - SHOWN} before them; weir moves lists all.`));
	}

	// canceller makes the button of a move, which says first what it would do.
	function canceller(m, place) {
		const send = (dry) => ask(path(["moves", m.id, "cancel"], dry ? { dry_run: true } : {}), { method: "POST" });
		const button = h("button", { type: "button", "aria-label": `Cancel the move of ${m.container}`, onclick: once(async () => {
			try {
				const would = await send(true);
				fill(place, h("p", {}, would.text), h("div", { class: "buttons" },
					h("button", { type: "button", class: "main", onclick: once(async () => {
						try {
							fill(place, h("p", { class: "done", role: "status" }, (await send(false)).text));
						} catch (err) {
							fill(place, refusal(err, "manager"), canceller(m, place));
						}
					}) }, "Cancel it"),
					h("button", { type: "button", onclick: () => fill(place, canceller(m, place)) }, "Let it go on")));
			} catch (err) {
				fill(place, refusal(err, "manager"), canceller(m, place));
			}
		}) }, "Cancel");
		return h("div", { class: "buttons" }, button);
	}

	const end = poll(path(["moves"]), 1, update, (err) => fill(wrong, refusal(err, "manager")));
	return () => end();
}

const state = (m) => h("span", { class: `result ${bad.has(m.state) ? "failed" : m.state}` }, m.state);

const down = (m) => (m.downtime_ms ? (m.downtime_ms < 1000 ? `${Math.round(m.downtime_ms)} ms` : `${(m.downtime_ms / 1000).toFixed(2)} s`) : "-");

// describe says what a move is and how far it has come.
function describe(m) {
	const took = (s) => (s.duration_ms < 1000 ? `${Math.round(s.duration_ms)} ms` : `${(s.duration_ms / 1000).toFixed(1)} s`);
	return [
		h("div", { class: "head" }, h("h2", {}, `${m.container}: ${m.from} → ${m.to}`), state(m)),
		facts([["Why", m.why], ["Ordered", stamp(Date.parse(m.created) / 1000)], m.ended ? ["Took", age((Date.parse(m.ended) - Date.parse(m.created)) / 1000)] : null,
			["Travelled", size(m.bytes)], m.downtime_ms ? ["Did not run for", down(m)] : null]),
		h("ol", { class: "steps", "aria-label": "Steps" },
			m.steps.map((s) => h("li", { class: s.error ? "failed" : "done" }, h("b", {}, s.step), ` ${took(s)}${s.bytes ? `, ${size(s.bytes)}` : ""}`, s.error && h("span", { class: "problem" }, ` ${s.error}`))),
			open.has(m.state) && m.step && !m.steps.some((s) => s.step === m.step) && h("li", { class: "now" }, h("b", {}, m.step), " now")),
		m.guarantee && h("p", {}, `The ${m.guarantee}.`),
		m.error && h("p", { class: "problem" }, m.error),
		m.cancel?.startsWith("asked ") ? open.has(m.state) && h("p", { class: "warning" }, `To be cancelled, ${m.cancel}.`)
			: m.cancel && h("p", { class: "warning" }, `Not cancelled: ${m.cancel}.`),
	];
}
