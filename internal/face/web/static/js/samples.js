// SPDX-License-Identifier: Apache-2.0
//
// Reads samples. One of a thousand workloads is 675 kB of JSON, which takes 50 ms to parse, and
// that once a second is felt while the page is scrolled. But from second to second little else
// than numbers changes. So workloads stay the objects that they are: their numbers are read from
// the bytes, a few milliseconds at a time, and are written into them all at once. What is between
// the numbers is known by its hash; a workload that differs by more is parsed anew.

const QUOTE = 0x22, BACKSLASH = 0x5c, COMMA = 0x2c, DOT = 0x2e, MINUS = 0x2d, ZERO = 0x30, NINE = 0x39, END = 0x5d;
const PAIR = 0x20, OPEN = 0x7b, CLOSE = 0x7d; // of [ { and ] }: c | PAIR
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
		const from = list(json);
		let at = from;
		const now = []; // [hash, a workload that is known, or the new one]
		this.#used = 0;
		for (let until = performance.now() + SLICE; at < json.length && json[at] !== END;) {
			const used = this.#used;
			const hash = this.#scan(json, at);
			let known = this.#known.get(hash);
			if (!known) {
				this.#used = used;
				known = found(parse(json.subarray(at, this.#end)));
				known.fresh = true;
			}
			now.push([hash, known]);
			at = this.#end;
			if (json[at] === COMMA) at++;
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
		const rest = new Uint8Array(json.length - (at - from));
		rest.set(json.subarray(0, from));
		rest.set(json.subarray(at), from);
		return { ...parse(rest), workloads: now.map(([, known]) => known.workload) };
	}

	#end = 0; // of what was read last

	// scan takes the numbers out of the object at i, and returns a hash of 53 bits of the rest:
	// that two of a million differ and have the same happens once in 20,000 times.
	// It makes no functions and keeps its numbers to itself: each would be garbage, of 10 MB a second.
	#scan(b, i) {
		let h = 0x811c9dc5, g = 0x9747b28c, depth = 0, quoted = false, escaped = false;
		do {
			let c = b[i++];
			if (escaped) escaped = false;
			else if (c === BACKSLASH) escaped = true;
			else if (c === QUOTE) quoted = !quoted;
			else if (quoted) ;
			else if (c === MINUS || (c >= ZERO && c <= NINE)) {
				i = this.#number(b, i - 1);
				c = ZERO;
			} else if ((c | PAIR) === OPEN) depth++;
			else if ((c | PAIR) === CLOSE) depth--;
			h = Math.imul(h ^ c, 0x01000193); // FNV-1a
			g = Math.imul((g << 13 | g >>> 19) ^ c, 0x9e3779b1);
		} while (depth && i < b.length);
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

const FIELD = new TextEncoder().encode("\"workloads\":[");

// list returns from where on the workloads are listed.
function list(b) {
	for (let i = 0, depth = 0; i < b.length; i++) {
		const c = b[i];
		if (c === QUOTE) {
			if (depth === 1 && begins(b, i, FIELD)) return i + FIELD.length;
			for (i++; i < b.length && b[i] !== QUOTE; i++) if (b[i] === BACKSLASH) i++;
		} else if ((c | PAIR) === OPEN) depth++;
		else if ((c | PAIR) === CLOSE) depth--;
	}
	throw new Error("a sample without workloads");
}

// begins reports whether what is at i begins with some bytes.
function begins(b, i, bytes) {
	for (let n = 0; n < bytes.length; n++) if (b[i + n] !== bytes[n]) return false;
	return true;
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
