// SPDX-License-Identifier: Apache-2.0
//
// Heat maps: for each workload a strip of cells over time, the stronger the colour the more. A
// strip is a canvas with a pixel for each cell, which the browser stretches, so an hour of
// thousands of workloads costs what its visible rows have of pixels.

import { clock, percent, rate, wait } from "./units.js";

const CELLS = 600; // of a strip at most; of more moments several share one

// What a cell shows, from 0 to 1. NaN: not known, and left empty.
//
//	of(series, row, top)   of one second; top is the link's capacity
//	join                   what several seconds are together
export const measures = {
	rate: {
		title: "Rate", legend: "none", full: "the whole link (a quarter of it is half as strong)", join: mean, colour: "--accent",
		of: (s, row, top) => Math.sqrt(s.rate(row) / top), // so that a hundredth of the link can be seen
	},
	lack: {
		title: "Below its ideal", legend: "has its ideal", full: "has nothing of it", join: Math.max, colour: "--bad",
		of: (s, row) => (s.ideal(row) > 0 ? Math.max(0, 1 - s.rate(row) / s.ideal(row)) : 0 * s.ideal(row)),
	},
	delay: {
		title: "Delay, p99", legend: "0.1 ms or less", full: "100 ms or more", join: Math.max, colour: "--warn",
		of: (s, row) => Math.log10(Math.max(s.wait(row), 0.1) / 0.1) / 3,
		told: (s, rows) => `p99 ${wait(Math.max(...rows.map((row) => s.wait(row)).filter((v) => v === v)))}`,
	},
};

function mean(...values) { return values.reduce((a, b) => a + b, 0) / values.length; }

export const spans = { "last minute": 60, "10 minutes": 600, "last hour": 3600 };

// cells turns the rows of the store's ring into those of a strip: lists of rows.
export function cells(rows) {
	const each = Math.ceil(rows.length / CELLS);
	const list = [];
	for (let at = rows.length; at > 0; at -= each) list.unshift(rows.slice(Math.max(0, at - each), at));
	return list;
}

// strip draws a series (store.js) into a canvas.
export function strip(canvas, series, parts, measure, top, colour) {
	const m = measures[measure];
	canvas.width = Math.max(1, parts.length); // clears it
	canvas.height = 1;
	if (!series || !parts.length) return;
	const image = new ImageData(parts.length, 1);
	parts.forEach((rows, i) => {
		const known = rows.map((row) => m.of(series, row, top)).filter((v) => v === v);
		if (!known.length) return;
		image.data.set(colour, 4 * i);
		image.data[4 * i + 3] = Math.round(255 * Math.min(1, Math.max(0, m.join(...known))));
	});
	canvas.getContext("2d").putImageData(image, 0, 0);
}

// paint returns the red, green and blue of a measure in the present theme.
export function paint(measure) {
	const c = new OffscreenCanvas(1, 1).getContext("2d");
	c.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(measures[measure].colour).trim();
	c.fillRect(0, 0, 1, 1);
	return c.getImageData(0, 0, 1, 1).data.slice(0, 3);
}

// told says in words what a cell of a strip shows.
export function told(name, series, rows, times, measure) {
	const own = measures[measure].told;
	if (own && rows.some((row) => series.wait(row) === series.wait(row))) return `${name}, ${clock(times[rows[0]])}: ${own(series, rows)}`;
	const average = (of) => mean(...rows.map(of).filter((v) => v === v));
	const r = average((row) => series.rate(row)), ideal = average((row) => series.ideal(row));
	if (r !== r) return `${name}, ${clock(times[rows[0]])}: not known`;
	const beside = ideal === ideal ? ` of ${rate(ideal)}${ideal > 0 ? ` (${percent(r / ideal)})` : ""}` : "";
	return `${name}, ${clock(times[rows[0]])}: ${rate(r)}${beside}`;
}
