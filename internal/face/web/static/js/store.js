// SPDX-License-Identifier: Apache-2.0
//
// Keeps what the stream says: the newest sample, and an hour of rates, one a second.
//
// All series share one ring of moments. A series holds two numbers for each moment, rate and
// ideal, in 16 bits: an hour of 1,000 workloads is 14 MB. Delays are those of the last 10 to
// 20 s, so one number for ten moments is enough. What is not known is NaN.

export const HOUR = 3600;
const WAIT = 10; // moments that share a delay

// nameOf names a link, as links are named in the page's addresses: "eth0/egress".
export const nameOf = (link) => `${link.device}/${link.direction}`;

// Numbers are so many rates in bit/s, each by its logarithm in 16 bits: to 0.02 %, from 1 bit/s
// to 2 Tbit/s. 0 is what is not known, 1 is less than 1 bit/s.
class Numbers {
	static STEPS = 1600; // to twice as much

	constructor(size) { this.codes = new Uint16Array(size); }

	get(i) {
		const code = this.codes[i];
		return code > 1 ? 2 ** ((code - 2) / Numbers.STEPS) : code ? 0 : NaN;
	}

	set(i, v) {
		if (!(v >= 0)) this.codes[i] = 0;
		else if (v < 1) this.codes[i] = 1;
		else this.codes[i] = Math.min(65535, 2 + Math.round(Math.log2(v) * Numbers.STEPS));
	}
}

class Series {
	constructor(key, name) {
		this.key = key;
		this.name = name;
		this.seen = 0; // in the sample of this moment, last
		this.rates = new Numbers(HOUR);
		this.ideals = new Numbers(HOUR);
		this.waits = new Float32Array(HOUR / WAIT).fill(NaN); // p99, ms
	}

	// What it had in a row of the ring, in bit/s,
	rate(row) { return this.rates.get(row); }

	// what it should have had,
	ideal(row) { return this.ideals.get(row); }

	// and the p99 of its delays about then, in milliseconds.
	wait(row) { return this.waits[Math.floor(row / WAIT)]; }
}

export class Store {
	constructor() {
		this.sample = null;
		this.times = new Float64Array(HOUR);
		this.head = -1; // row of the newest moment
		this.rows = 0;
		this.links = new Map(); // by link's name: Map of series by workload's key
		this.listeners = new Set();
	}

	// take adds a sample. One with history (the first of a stream) also fills the minute before.
	take(sample) {
		const at = Math.round(Date.parse(sample.at) / 1000);
		let last = this.rows ? this.times[this.head] : -Infinity;
		if (at < last - 3) { // the clock was set back
			this.rows = 0;
			this.head = -1;
			this.links.clear();
			last = -Infinity;
		}
		const past = Math.min(60, Math.max(0, at - last - 1));
		const history = sample.workloads.some((w) => w.links.some((l) => l.history_bps));
		if (history) for (let ago = past; ago > 0; ago--) this.#row(at - ago);
		else if (at - last > 3 && this.rows) this.#row(last + 1); // a gap that charts show
		if (at > last) this.#row(at);
		for (const w of sample.workloads) {
			for (const l of w.links) {
				const series = this.#series(nameOf(l), w);
				series.seen = at;
				series.rates.set(this.head, l.rate_bps);
				series.ideals.set(this.head, l.ideal_bps);
				if (l.delay?.packets) series.waits[Math.floor(this.head / WAIT)] = l.delay.p99_ms;
				const old = l.history_bps;
				// The last of the history is the rate of this very second.
				if (old) for (let ago = 1; ago <= past && ago < old.length; ago++) series.rates.set(this.#at(ago), old[old.length - 1 - ago]);
			}
		}
		if (this.head % 60 === 0) this.#forget();
		this.sample = sample;
		for (const listener of this.listeners) listener(sample);
	}

	// forget drops the series of those that the ring has no moment of any more.
	#forget() {
		for (const [link, all] of this.links) {
			for (const [key, s] of all) if (s.seen < this.times[this.head] - HOUR) all.delete(key);
			if (!all.size) this.links.delete(link);
		}
	}

	#at(ago) { return (this.head - ago + HOUR) % HOUR; }

	#row(at) {
		this.head = (this.head + 1) % HOUR;
		this.rows = Math.min(this.rows + 1, HOUR);
		this.times[this.head] = at;
		for (const all of this.links.values()) {
			for (const s of all.values()) {
				s.rates.set(this.head, NaN);
				s.ideals.set(this.head, NaN);
				if (this.head % WAIT === 0) s.waits[this.head / WAIT] = NaN;
			}
		}
	}

	#series(link, w) {
		let all = this.links.get(link);
		if (!all) this.links.set(link, (all = new Map()));
		let s = all.get(w.key);
		if (!s) all.set(w.key, (s = new Series(w.key, w.name)));
		return s;
	}

	series(link, key) { return this.links.get(link)?.get(key); }

	// window returns the rows of the last so many seconds, the oldest first.
	window(seconds) {
		const rows = [];
		if (!this.rows) return rows;
		const from = this.times[this.head] - seconds;
		for (let ago = Math.min(this.rows, seconds + 1) - 1; ago >= 0; ago--) {
			const row = this.#at(ago);
			if (this.times[row] > from) rows.push(row);
		}
		return rows;
	}

	// on calls back with each sample until the function that it returns is called.
	on(listener) {
		this.listeners.add(listener);
		if (this.sample) listener(this.sample);
		return () => this.listeners.delete(listener);
	}

	workload(name) { return this.sample?.workloads.find((w) => w.name === name); }
}

export const store = new Store();
