// SPDX-License-Identifier: Apache-2.0
//
// The agent's live stream.
//
// A browser opens at most six connections to a host, and a stream holds one for as long as it
// runs. So of all tabs one has the stream (it holds a lock) and passes the samples on; a tab
// that is new takes a first sample with the last minute by a short stream of its own.

import { place, send, session, signOut, wait, Problem } from "./api.js";
import { Reader } from "./samples.js";

const NEWLINE = 0x0a;
const DATA = new TextEncoder().encode("data: ");

// filler returns what reads on from a body into a buffer behind what is used of it, and returns
// the buffer and how much is used then; null: the body has ended. Browsers that can read all of it
// into the same memory: pieces of their own would be 20 MB of garbage before the browser looks.
export function filler(body) {
	const grown = (buffer, size) => (size > buffer.byteLength ? buffer.transfer(2 * size) : buffer);
	let reader;
	try {
		reader = body.getReader({ mode: "byob" });
	} catch { // Safari
		reader = body.getReader();
		return async (buffer, used) => {
			const { done, value } = await reader.read();
			if (done) return null;
			const larger = grown(buffer, used + value.length);
			new Uint8Array(larger).set(value, used);
			return [larger, used + value.length];
		};
	}
	return async (buffer, used) => {
		const { done, value } = await reader.read(new Uint8Array(grown(buffer, used + 1), used));
		return done ? null : [value.buffer, used + value.length];
	};
}

// events reads server-sent events until the stream ends, and waits for each. The agent's are one
// line each.
async function events(each, signal) {
	const response = await send("v1/stream", { method: "GET", signal });
	const fill = filler(response.body);
	let held = [new ArrayBuffer(1 << 16), 0]; // a line that is not whole yet
	for (;;) {
		const [buffer, used] = held;
		held = await fill(buffer, used);
		if (!held) return;
		const bytes = new Uint8Array(held[0], 0, held[1]);
		let from = 0;
		for (let end, look = used; (end = bytes.indexOf(NEWLINE, look)) >= 0; look = from) {
			const line = bytes.subarray(from, end);
			if (DATA.every((c, i) => line[i] === c)) await each(line.subarray(DATA.length));
			from = end + 1;
		}
		if (from) bytes.copyWithin(0, from);
		held[1] -= from;
	}
}

// follow calls each with every sample, and state with "live", "away" (the agent cannot be
// reached) or "out" (the session has ended). It goes on for ever.
export function follow(each, state) {
	const channel = new BroadcastChannel(`weir-stream${place}`);
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
		const end = new AbortController(); // of one whose samples cannot be shown, too: it holds a connection
		try {
			await events((json) => {
				state("live");
				return take(json);
			}, signal ? AbortSignal.any([signal, end.signal]) : end.signal);
		} catch (err) {
			if (signal?.aborted) return;
			if (err instanceof Problem && err.status === 401) {
				signOut();
				return;
			}
		} finally {
			end.abort();
		}
		state("away");
		await wait(1000);
	};
	if (!navigator.locks) {
		lead();
		return;
	}
	navigator.locks.request(`weir-stream${place}`, lead);
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
