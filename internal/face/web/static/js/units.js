// SPDX-License-Identifier: Apache-2.0
//
// Writes quantities as the command line does (internal/core/policy/rate.go, internal/face/cli/human):
// rate(16666667) is "16.7 Mbit/s". The browser suite compares both.

const scales = [[1e12, "Tbit/s"], [1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"], [1, "bit/s"]];

// limit writes a rate in bits per second exactly; 0 is "none".
export function limit(bps) { return bps ? exact(bps) : "none"; }

function exact(bps) {
	const [size, unit] = scales.find(([s]) => bps >= s) ?? scales.at(-1);
	return `${Number((bps / size).toPrecision(15))} ${unit}`;
}

// rate writes a measured rate with three digits.
export function rate(bps) {
	if (!(bps > 0)) return "0 bit/s";
	return exact(Math.round(Number(bps.toExponential(2))));
}

// wait writes how long packets waited, in milliseconds.
export function wait(ms) { return `${ms.toFixed(ms >= 9.95 ? 0 : ms >= 0.995 ? 1 : ms >= 0.0995 ? 2 : 3)} ms`; }

// delay writes how long a workload's or a queue's packets waited lately, in words; where it is
// not measured, null.
export function delay(d) {
	if (!d) return null;
	return d.packets ? `p50 ${wait(d.p50_ms)}, p99 ${wait(d.p99_ms)}, at most ${wait(d.most_ms)}` : "no packet has left in the last seconds";
}

// size writes a number of bytes with three digits.
export function size(bytes) {
	let unit = "B";
	for (const next of ["kB", "MB", "GB", "TB", "PB"]) {
		if (bytes < 999.5) break;
		bytes /= 1000;
		unit = next;
	}
	if (unit === "B") return `${bytes} B`;
	return `${bytes.toFixed(bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2)} ${unit}`;
}

// percent writes a share of 1.
export function percent(share) { return `${Math.round(share * 100)} %`; }

// kept writes a promise score: what was not kept whole is not 100.0 %.
export function kept(part) { return `${(Math.floor(part * 1000 + 1e-9) / 10).toFixed(1)} %`; }

// age writes a number of seconds in its two largest units.
export function age(seconds) {
	const s = Math.max(0, Math.round(seconds));
	const [d, hours, min] = [Math.floor(s / 86400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60];
	if (d) return `${d} d ${hours} h`;
	if (hours) return `${hours} h ${min} min`;
	if (min) return `${min} min ${s % 60} s`;
	return `${s} s`;
}

// drops writes packets by reason, the most frequent first.
export function drops(byReason, perSecond = 0) {
	const some = Object.entries(byReason ?? {}).filter(([, n]) => n > 0)
		.sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1));
	if (!some.length) return "none";
	const total = some.reduce((sum, [, n]) => sum + n, 0);
	const now = perSecond > 0 ? `, ${Number(perSecond.toPrecision(3))} a second now` : "";
	return `${total} packets (${some.map(([reason, n]) => `${reason} ${n}`).join(", ")})${now}`;
}

// total adds up packets of all reasons.
export function total(byReason) { return Object.values(byReason ?? {}).reduce((a, b) => a + b, 0); }

const two = (n) => String(n).padStart(2, "0");

// clock writes a moment's time of day; seconds since 1970.
export function clock(at) {
	const d = new Date(at * 1000);
	return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

// stamp writes a moment as weir audit does.
export function stamp(at) {
	const d = new Date(at * 1000);
	return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${clock(at)}`;
}

// direction names a link's direction in both words that people use for it.
export function direction(name) {
	return { egress: "egress (upload)", ingress: "ingress (download)" }[name] ?? name;
}

// amount writes a min or max as a person would say it: "20 Mbit/s", "25 %", "none".
export function amount(text) {
	if (!text) return "none";
	const m = /^([\d.]+)(%|[tgmk]?bit)$/.exec(text);
	if (!m) return text;
	if (m[2] === "%") return `${m[1]} %`;
	return `${m[1]} ${{ tbit: "Tbit/s", gbit: "Gbit/s", mbit: "Mbit/s", kbit: "kbit/s", bit: "bit/s" }[m[2]]}`;
}
