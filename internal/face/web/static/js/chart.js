// SPDX-License-Identifier: Apache-2.0
//
// Charts over time: areas that are stacked, with lines above them, by uPlot; and the small
// histories in tables, which a canvas of their own is enough for.

import { clock, stamp, rate } from "./units.js";

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// colour returns the n-th colour of a series.
export const colour = (n) => css(`--series-${n % 10}`);

const day = (at) => stamp(at).slice(5, 16);

// Chart draws bands and lines into an element and keeps its width.
//
//	bands: [{name, colour, rate: [...], ideal: [...]}], the lowest first
//	lines: [{name, value, colour, dash}], the same over the whole time
export class Chart {
	constructor(element, { height = 320, label, onCursor = () => {} }) {
		this.element = element;
		this.height = height;
		this.onCursor = onCursor;
		this.shape = "";
		element.setAttribute("role", "img");
		element.setAttribute("aria-label", label);
		this.observer = new ResizeObserver(() => this.plot?.setSize({ width: this.#width(), height: this.#height() }));
		this.observer.observe(element);
	}

	#width() { return Math.max(200, this.element.clientWidth); }

	#height() { return Math.min(this.height * Math.max(1, window.innerHeight / 1000), window.innerHeight * 0.6); }

	destroy() {
		this.observer.disconnect();
		this.plot?.destroy();
	}

	// draw shows times (seconds) with bands and lines. top is the least upper end of the scale.
	draw({ times, bands, lines = [], top = 0, long = false }) {
		const sums = bands.map(() => []);
		const ideals = bands.map(() => []);
		for (let i = 0; i < times.length; i++) {
			let sum = 0, ideal = 0;
			bands.forEach((band, b) => {
				const known = band.rate[i] === band.rate[i];
				sum += known ? band.rate[i] : 0;
				ideal += band.ideal?.[i] ?? NaN;
				sums[b].push(band.gap?.[i] ? null : sum);
				ideals[b].push(ideal === ideal ? ideal : null);
			});
		}
		// The highest sum is drawn first and the lower ones over it.
		const data = [times, ...sums.toReversed(), ...ideals.toReversed(), ...lines.map((l) => times.map(() => l.value))];
		let highest = top;
		for (const v of sums.at(-1) ?? []) highest = Math.max(highest, v ?? 0);
		for (const v of ideals.at(-1) ?? []) highest = Math.max(highest, v ?? 0);
		this.highest = Math.max(highest, ...lines.map((l) => l.value)) * 1.05 || 1;
		const shape = JSON.stringify([bands.map((b) => [b.name, b.colour]), lines.map((l) => [l.name, l.colour]), long, css("--line")]);
		if (shape !== this.shape || !this.plot) {
			this.shape = shape;
			this.#make(data, bands, lines, long);
		} else {
			this.plot.setData(data);
		}
	}

	#make(data, bands, lines, long) {
		this.plot?.destroy();
		const narrow = this.element.clientWidth < 500;
		const axis = { stroke: css("--soft"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line"), width: 1 }, font: "12px system-ui, sans-serif" };
		const series = [
			{},
			...bands.toReversed().map((b) => ({ label: b.name, fill: b.colour, width: 0, points: { show: false }, spanGaps: false })),
			...bands.toReversed().map((b) => ({ label: `${b.name}, ideal`, stroke: css("--ideal"), width: 1.5, dash: [5, 3], points: { show: false } })),
			...lines.map((l) => ({ label: l.name, stroke: l.colour, width: 2, dash: l.dash, points: { show: false } })),
		];
		this.plot = new uPlot({
			width: this.#width(), height: this.#height(), series,
			legend: { show: false },
			cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
			scales: { x: { time: true }, y: { range: () => [0, this.highest] } },
			axes: [
				{ ...axis, space: long ? 90 : 70, values: (_, at) => at.map(long ? day : clock) },
				{ ...axis, size: narrow ? 74 : 88, values: (_, v) => v.map((x) => (x ? rate(x) : "0")) },
			],
			hooks: { setCursor: [(u) => this.onCursor(u.cursor.idx ?? null)] },
		}, data, this.element);
	}
}

// sparkColour is the colour of small histories; it is looked up once for all rows of a table.
export const sparkColour = () => css("--spark");

// spark draws the last rates of a series into a canvas of that width, relative to top.
export function spark(canvas, width, values, top, fill) {
	const ratio = window.devicePixelRatio || 1;
	const height = 24; // as in style.css
	if (canvas.width !== Math.round(width * ratio)) {
		canvas.width = Math.round(width * ratio);
		canvas.height = Math.round(height * ratio);
	}
	const c = canvas.getContext("2d");
	c.setTransform(ratio, 0, 0, ratio, 0, 0);
	c.clearRect(0, 0, width, height);
	if (!top || values.length < 2) return;
	const step = width / 59;
	c.beginPath();
	let x = width - step * (values.length - 1);
	c.moveTo(x, height);
	for (const v of values) {
		c.lineTo(x, height - 1 - (v > 0 ? v / top : 0) * (height - 2));
		x += step;
	}
	c.lineTo(width, height);
	c.fillStyle = fill;
	c.fill();
}
