// SPDX-License-Identifier: Apache-2.0
//
// The worker that reads the agent's live stream, and hands its samples to the page (stream.js).
//
// A browser opens at most six connections to a host, and a stream holds one for as long as it
// runs. So of all tabs one has the stream (it holds a lock) and passes the samples on; a tab
// that is new takes a first sample with the last minute by a short stream of its own.

import { send, wait, Problem } from "./api.js";
import { Packer } from "./parcel.js";

const packer = new Packer();

function each(text) {
	const parcel = packer.pack(JSON.parse(text));
	postMessage({ parcel }, [parcel.numbers.buffer]);
}

const state = (name) => postMessage({ state: name });

// session asks the page for the session: a worker has no storage.
const asked = [];
const session = () => new Promise((done) => {
	asked.push(done);
	postMessage({ wants: "session" });
});
onmessage = ({ data }) => asked.shift()(data.session);

// events reads server-sent events until the stream ends.
async function events(token, each, signal) {
	const response = await send("/v1/stream", { method: "GET", signal, token });
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

// follow goes on for ever.
function follow() {
	const channel = new BroadcastChannel("weir-stream");
	let followers = 0; // until when another tab wants samples
	let leading = false;
	let heard = 0;
	channel.onmessage = ({ data }) => {
		if (data.hello) followers = Date.now() + 5000;
		if (data.sample && !leading) {
			heard = Date.now();
			state("live");
			each(data.sample);
		}
	};
	const lead = async () => {
		leading = true;
		for (;;) {
			await run((text) => {
				each(text);
				if (followers > Date.now()) channel.postMessage({ sample: text });
			});
		}
	};
	// run has one stream, until it ends.
	const run = async (take, signal) => {
		const signedIn = await session();
		if (!signedIn) {
			state("out");
			return wait(1000);
		}
		try {
			await events(signedIn.token, (text) => {
				state("live");
				take(text);
			}, signal);
		} catch (err) {
			if (signal?.aborted) return;
			if (err instanceof Problem && err.status === 401) {
				postMessage({ refused: signedIn.token });
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
					each(text);
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

follow();
