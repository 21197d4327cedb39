// SPDX-License-Identifier: Apache-2.0
//
// The agent's live stream.
//
// A browser opens at most six connections to a host, and a stream holds one for as long as it
// runs. So of all tabs one has the stream (it holds a lock) and passes the samples on; a tab
// that is new takes a first sample with the last minute by a short stream of its own.

import { send, session, signOut, wait, Problem } from "./api.js";
import { Reader } from "./samples.js";

const NEWLINE = 0x0a;
const DATA = new TextEncoder().encode("data: ");

// events reads server-sent events until the stream ends, and waits for each. The agent's are one line each. All is read
// into one buffer: pieces of their own would be 20 MB of garbage before the browser looks.
async function events(each, signal) {
	const response = await send("/v1/stream", { method: "GET", signal });
	const reader = response.body.getReader({ mode: "byob" });
	let buffer = new ArrayBuffer(1 << 16), used = 0; // a line that is not whole yet
	for (;;) {
		if (used === buffer.byteLength) buffer = buffer.transfer(2 * used);
		const { done, value } = await reader.read(new Uint8Array(buffer, used));
		if (done) return;
		buffer = value.buffer;
		const bytes = new Uint8Array(buffer, 0, used + value.length);
		let from = 0;
		for (let end, look = used; (end = bytes.indexOf(NEWLINE, look)) >= 0; look = from) {
			const line = bytes.subarray(from, end);
			if (DATA.every((c, i) => line[i] === c)) await each(line.subarray(DATA.length));
			from = end + 1;
		}
		if (from) bytes.copyWithin(0, from);
		used = bytes.length - from;
	}
}

// follow calls each with every sample, and state with "live", "away" (the agent cannot be
// reached) or "out" (the session has ended). It goes on for ever.
export function follow(each, state) {
	const channel = new BroadcastChannel("weir-stream");
	const samples = new Reader();
	let reading = Promise.resolve();
	// show reads a sample, after those before.
	const show = (json) => (reading = reading.catch(() => {}).then(async () => each(await samples.read(json))));
	let followers = 0; // until when another tab wants samples
	let leading = false;
	let heard = 0;
	channel.onmessage = ({ data }) => {
		if (data.hello) followers = Date.now() + 5000;
		if (data.sample && !leading) {
			heard = Date.now();
			state("live");
			show(data.sample);
		}
	};
	const lead = async () => {
		leading = true;
		for (;;) {
			await run((json) => {
				if (followers > Date.now()) channel.postMessage({ sample: json.slice() });
				return show(json);
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
			await events((json) => {
				state("live");
				return take(json);
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
				await run(async (json) => {
					if (leading) return;
					heard = Date.now();
					await show(json);
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
