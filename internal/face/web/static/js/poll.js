// SPDX-License-Identifier: Apache-2.0
//
// Asks the manager again and again: it has no stream, and what it knows changes by the second at
// most. A page that nobody looks at asks for nothing.

import { ask, session, signOut, wait, Problem } from "./api.js";

const PATIENCE = 5000; // ms until a manager that does not answer counts as away

// poll asks for a path every so many seconds, the first time now, and calls each with the answer
// if it differs from the one before, and failed with a refusal. That it does not answer is
// presence's to say. It returns what ends it.
export function poll(path, seconds, each, failed) {
	let timer, over = false, shown = "";
	async function turn() {
		if (!document.hidden && session()) {
			const answer = await ask(path, { signal: AbortSignal.timeout(PATIENCE) }).catch((err) => err);
			if (over) return;
			const text = JSON.stringify(answer);
			if (!(answer instanceof Error)) {
				if (text !== shown) each(answer);
				shown = text;
			} else if (answer instanceof Problem && answer.status !== 401) {
				failed(answer);
				shown = "";
			}
		}
		if (!over) timer = setTimeout(turn, seconds * 1000);
	}
	turn();
	return () => {
		over = true;
		clearTimeout(timer);
	};
}

// presence asks for a path every second, for ever, calls each with the answer, and tells state
// "live", "away" or "out". A manager that has started anew was away, also where it was not seen.
export async function presence(path, each, state) {
	let started;
	for (;;) {
		if (!session()) {
			state("out");
		} else if (!document.hidden) {
			const answer = await ask(path, { signal: AbortSignal.timeout(PATIENCE) }).catch((err) => err);
			if (answer instanceof Problem && answer.status === 401) {
				signOut();
			} else if (answer instanceof Error) {
				state("away");
			} else {
				if (started && started !== answer.started) state("away");
				started = answer.started;
				state("live");
				each(answer);
			}
		}
		await wait(1000);
	}
}

// cluster is what the manager said last of itself.
export const cluster = {
	now: null,
	listeners: new Set(),
	take(c) {
		this.now = c;
		for (const listener of this.listeners) listener(c);
	},
	// on calls back with each until the function that it returns is called.
	on(listener) {
		this.listeners.add(listener);
		if (this.now) listener(this.now);
		return () => this.listeners.delete(listener);
	},
};
