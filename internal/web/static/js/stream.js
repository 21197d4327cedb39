// SPDX-License-Identifier: Apache-2.0
//
// The agent's live stream.
//
// A browser opens at most six connections to a host, and a stream holds one for as long as it
// runs. So of all tabs one has the stream (it holds a lock) and passes the samples on; a tab
// that is new takes a first sample with the last minute by a short stream of its own.

import { send, session, signOut, wait, Problem } from "./api.js";

// events reads server-sent events until the stream ends.
async function events(each, signal) {
	const response = await send("/v1/stream", { method: "GET", signal });
	const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
	let rest = []; // pieces of an event that is not whole yet; a sample comes in dozens
	for (;;) {
		const { done, value } = await reader.read();
		if (done) return;
		rest.push(value);
		// The two line ends that close an event may come in two pieces.
		if (!`${rest.at(-2)?.at(-1) ?? ""}${value}`.includes("\n\n")) continue;
		const parts = rest.join("").split("\n\n");
		rest = [parts.pop()];
		for (const part of parts) if (part.startsWith("data: ")) each(part.slice(6));
	}
}

// follow calls each with every sample, and state with "live", "away" (the agent cannot be
// reached) or "out" (the session has ended). It goes on for ever.
export function follow(each, state) {
	const channel = new BroadcastChannel("weir-stream");
	let followers = 0; // until when another tab wants samples
	let leading = false;
	let heard = 0;
	channel.onmessage = ({ data }) => {
		if (data.hello) followers = Date.now() + 5000;
		if (data.sample && !leading) {
			heard = Date.now();
			state("live");
			each(JSON.parse(data.sample));
		}
	};
	const lead = async () => {
		leading = true;
		for (;;) {
			await run((text) => {
				each(JSON.parse(text));
				if (followers > Date.now()) channel.postMessage({ sample: text });
			});
		}
	};
	// run has one stream, until it ends.
	const run = async (take, signal) => {
		if (!session()) {
			state("out");
			return wait(1000);
		}
		try {
			await events((text) => {
				state("live");
				take(text);
			}, signal);
		} catch (err) {
			if (signal?.aborted) return;
			if (err instanceof Problem && err.status === 401) {
				signOut();
				return;
			}
		}
		state("away");
		await wait(1000);
	};
	if (!navigator.locks) {
		lead();
		return;
	}
	navigator.locks.request("weir-stream", lead);
	(async () => {
		await wait(50); // for the lock, if it is free
		const first = new AbortController();
		while (!leading) {
			channel.postMessage({ hello: true });
			if (Date.now() - heard > 3000) {
				await run((text) => {
					if (leading) return;
					heard = Date.now();
					each(JSON.parse(text));
					first.abort();
				}, first.signal);
				if (heard) return beat();
			}
			await wait(1000);
		}
	})();
	// beat tells the tab that has the stream that this one wants samples.
	async function beat() {
		while (!leading) {
			channel.postMessage({ hello: true });
			if (Date.now() - heard > 3000) state("away");
			await wait(1000);
		}
	}
}
