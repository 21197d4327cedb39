// SPDX-License-Identifier: Apache-2.0
//
// Reads samples. One of a thousand workloads is 675 kB of JSON, which takes 50 ms to parse, and
// that once a second is felt while the page is scrolled. But from second to second little else
// than numbers changes. So workloads stay the objects that they are: their numbers are read from
// the bytes, a few milliseconds at a time, and are written into them all at once. What is between
// the numbers is known by its hash; a workload that differs by more is parsed anew.

const QUOTE = 0x22, BACKSLASH = 0x5c, DOT = 0x2e, MINUS = 0x2d, ZERO = 0x30, NINE = 0x39;
const OPEN = new Set([0x5b, 0x7b]), CLOSE = new Set([0x5d, 0x7d]); // [ {, ] }
const EXACT = 15; // decimal digits that a number of JavaScript has in any case
const POWERS = Array.from({ length: EXACT + 1 }, (_, i) => 10 ** i);
const SLICE = 2; // ms of reading, then other tasks have their turn
const decoder = new TextDecoder();
const parse = (bytes) => JSON.parse(decoder.decode(bytes));

const other = () => new Promise((done) => { if (document.hidden) done(); else setTimeout(done); }); // timers of a hidden page are slow

export class Reader {
	#known = new Map(); // by hash of what is between the numbers: a workload, as found has it
	#numbers = new Float64Array(1024);
	#used = 0;

	// read returns the sample in JSON, as bytes. Its workloads are the objects of the sample before,
	// changed, where they differ by numbers only. The bytes must stay as they are until it returns.
	async read(json) {
		const [from, to] = list(json);
		const now = []; // [hash, a workload that is known, or the new one]
		this.#used = 0;
		for (let at = from, until = performance.now() + SLICE; at < to;) {
			const used = this.#used;
			const hash = this.#scan(json, at);
			let known = this.#known.get(hash);
			if (!known) {
				this.#used = used;
				known = found(parse(json.subarray(at, this.#end)));
				known.fresh = true;
			}
			now.push([hash, known]);
			at = this.#end + 1; // and the comma
			if (performance.now() > until) {
				await other();
				until = performance.now() + SLICE;
			}
		}
		let n = 0;
		for (const [, { fresh, owners, fields }] of now) {
			if (!fresh) for (let i = 0; i < owners.length; i++) owners[i][fields[i]] = this.#numbers[n++];
		}
		for (const [, known] of now) known.fresh = false;
		this.#known = new Map(now);
		const rest = new Uint8Array(json.length - (to - from));
		rest.set(json.subarray(0, from));
		rest.set(json.subarray(to), from);
		return { ...parse(rest), workloads: now.map(([, known]) => known.workload) };
	}

	#end = 0; // of what was read last

	// scan takes the numbers out of the object at i, and returns a hash of 53 bits of the rest:
	// that two of a million differ and have the same happens once in 20,000 times.
	#scan(b, i) {
		let h = 0x811c9dc5, g = 0x9747b28c, depth = 0;
		const mix = (c) => {
			h = Math.imul(h ^ c, 0x01000193); // FNV-1a
			g = Math.imul((g << 13 | g >>> 19) ^ c, 0x9e3779b1);
		};
		do {
			const c = b[i];
			if (c === MINUS || (c >= ZERO && c <= NINE)) {
				i = this.#number(b, i);
				mix(ZERO);
				continue;
			}
			if (c === QUOTE) {
				const end = past(b, i);
				while (i < end) mix(b[i++]);
				continue;
			}
			if (OPEN.has(c)) depth++;
			else if (CLOSE.has(c)) depth--;
			mix(c);
			i++;
		} while (depth);
		this.#end = i;
		return (h >>> 0) * 2 ** 21 + (g >>> 11);
	}

	// number takes the number at i, and returns where it ends.
	#number(b, i) {
		const from = i;
		if (b[i] === MINUS) i++;
		let value = 0, digits = 0, point = 0;
		for (; ; i++) {
			const c = b[i];
			if (c >= ZERO && c <= NINE) {
				value = value * 10 + c - ZERO;
				digits++;
			} else if (c === DOT) {
				point = digits;
			} else {
				break;
			}
		}
		const more = b[i] === 0x65 || b[i] === 0x45; // e, E
		if (more || digits > EXACT) {
			while (b[i] === 0x65 || b[i] === 0x45 || b[i] === 0x2b || b[i] === MINUS || (b[i] >= ZERO && b[i] <= NINE)) i++;
			value = Number(decoder.decode(b.subarray(from, i)));
		} else {
			if (point) value /= POWERS[digits - point];
			if (b[from] === MINUS) value = -value;
		}
		if (this.#used === this.#numbers.length) {
			const larger = new Float64Array(2 * this.#used);
			larger.set(this.#numbers);
			this.#numbers = larger;
		}
		this.#numbers[this.#used++] = value;
		return i;
	}
}

// past returns where the string at i ends.
function past(b, i) {
	for (i++; b[i] !== QUOTE; i++) if (b[i] === BACKSLASH) i++;
	return i + 1;
}

const FIELD = new TextEncoder().encode("\"workloads\":[");

// list returns from where to where the list of workloads is, without its brackets.
function list(b) {
	for (let i = 0, depth = 0, from = 0; i < b.length;) {
		const c = b[i];
		if (c === QUOTE) {
			if (depth === 1 && FIELD.every((f, n) => b[i + n] === f)) from = i + FIELD.length;
			i = past(b, i);
			continue;
		}
		if (OPEN.has(c)) depth++;
		else if (CLOSE.has(c) && --depth === 1 && from) return [from, i];
		i++;
	}
	throw new Error("a sample without workloads");
}

// found looks for the numbers in a workload, in the order of its fields.
function found(workload) {
	const owners = [], fields = [];
	const look = (o) => {
		for (const field of Object.keys(o)) {
			if (typeof o[field] === "number") {
				owners.push(o);
				fields.push(field);
			} else if (typeof o[field] === "object" && o[field] !== null) {
				look(o[field]);
			}
		}
	};
	look(workload);
	return { workload, owners, fields, fresh: false };
}
