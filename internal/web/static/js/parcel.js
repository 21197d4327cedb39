// SPDX-License-Identifier: Apache-2.0
//
// Hands samples over from the worker that reads them to the page. A thousand workloads as objects
// would take the page as long as parsing them anew, and from second to second little but their
// numbers changes: so a workload is handed over as a whole only when something else has changed,
// and else its numbers, those of all workloads in one array that costs nothing to hand over.
//
//	{sample, keys, whole, numbers}
//	sample   all but its workloads
//	keys     of the workloads, in their order; null: as before
//	whole    the workloads that are new, or differ by more than numbers
//	numbers  of all others, in the order of keys, each workload's in the order of its fields

export class Packer {
	#before = new Map(); // by key: the workload in the sample before
	#keys = [];

	// pack returns the parcel of a sample.
	pack({ workloads, ...sample }) {
		const numbers = [], whole = [], now = new Map();
		for (const w of workloads) {
			now.set(w.key, w);
			const before = this.#before.get(w.key);
			const from = numbers.length;
			if (before && alike(before, w, numbers)) continue;
			numbers.length = from;
			whole.push(w);
		}
		const keys = workloads.map((w) => w.key);
		const same = keys.length === this.#keys.length && keys.every((key, i) => key === this.#keys[i]);
		this.#before = now;
		this.#keys = keys;
		return { sample, keys: same ? null : keys, whole, numbers: Float64Array.from(numbers) };
	}
}

// alike says whether b is a but for its numbers, and adds those to numbers.
function alike(a, b, numbers) {
	if (typeof b === "number") return typeof a === "number" && numbers.push(b) > 0;
	if (!isObject(a) || !isObject(b)) return a === b;
	const fields = Object.keys(b), before = Object.keys(a);
	return fields.length === before.length && fields.every((f, i) => f === before[i] && alike(a[f], b[f], numbers));
}

const isObject = (v) => typeof v === "object" && v !== null;

export class Unpacker {
	#known = new Map(); // by key: {workload, owners, fields}; the n-th number is owners[n][fields[n]]
	#keys = [];

	// open returns the sample in a parcel. Its workloads are those of the sample before, changed,
	// where they were not handed over as a whole.
	open({ sample, keys, whole, numbers }) {
		if (keys) this.#keys = keys;
		const fresh = new Map(whole.map((w) => [w.key, found(w)]));
		let at = 0;
		this.#known = new Map(this.#keys.map((key) => {
			if (fresh.has(key)) return [key, fresh.get(key)];
			const known = this.#known.get(key);
			const { owners, fields } = known;
			for (let n = 0; n < owners.length; n++) owners[n][fields[n]] = numbers[at++];
			return [key, known];
		}));
		return { ...sample, workloads: Array.from(this.#known.values(), (k) => k.workload) };
	}
}

// found looks for the numbers in a workload, in the order of its fields.
function found(workload) {
	const owners = [], fields = [];
	const look = (o) => {
		for (const field of Object.keys(o)) {
			if (typeof o[field] === "number") {
				owners.push(o);
				fields.push(field);
			} else if (isObject(o[field])) {
				look(o[field]);
			}
		}
	};
	look(workload);
	return { workload, owners, fields };
}
