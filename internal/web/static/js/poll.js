// SPDX-License-Identifier: Apache-2.0
//
// Asks the manager again and again: it has no stream, and what it knows changes by the second at
// most. A page that nobody looks at asks for nothing.

import { ask, session, signOut, wait, Problem } from "./api.js";

// poll asks for a path every so many seconds, the first time now, and calls each with the answer
// if it differs from the one before; failed is called with an error that is no other's business.
// It returns what ends it, with a method to ask at once.
export function poll(path, seconds, each, failed = () => {}) {
	let timer, over = false, shown = "";
	async function turn() {
		clearTimeout(timer);
		if (!document.hidden && session()) {
			try {
				const answer = await ask(path);
				const text = JSON.stringify(answer);
				if (!over && text !== shown) each(answer);
				shown = text;
			} catch (err) {
				if (!over && err instanceof Problem && err.status !== 401) failed(err);
			}
		}
		clearTimeout(timer);
		if (!over) timer = setTimeout(turn, seconds * 1000);
	}
	turn();
	const end = () => {
		over = true;
		clearTimeout(timer);
	};
	end.now = turn;
	return end;
}

// presence asks for a path every second, for ever, calls each with the answer, and tells state
// "live", "away" or "out".
export async function presence(path, each, state) {
	for (;;) {
		if (!session()) {
			state("out");
		} else if (!document.hidden) {
			try {
				const answer = await ask(path);
				state("live");
				each(answer);
			} catch (err) {
				if (err instanceof Problem && err.status === 401) signOut();
				else if (!(err instanceof Problem)) state("away");
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
