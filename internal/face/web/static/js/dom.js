// SPDX-License-Identifier: Apache-2.0
//
// Makes elements. Texts become text nodes and never markup, so a workload's name cannot be
// read as HTML:
//
//	h("p", {class: "note"}, "rate ", h("b", {}, rate(20e6)))

import { Problem } from "./api.js";

// h makes an element. Of props, functions are listeners ("onclick"), true and false set and
// leave out an attribute, all others are attributes.
export function h(tag, props = {}, ...children) {
	const element = document.createElement(tag);
	for (const [name, value] of Object.entries(props)) {
		if (typeof value === "function") element.addEventListener(name.slice(2), value);
		else if (value === true) element.setAttribute(name, "");
		else if (value !== false && value != null) element.setAttribute(name, value);
	}
	element.append(...children.flat(Infinity).filter((c) => c != null && c !== false));
	return element;
}

// fill replaces the children of an element.
export function fill(element, ...children) {
	element.replaceChildren(...children.flat(Infinity).filter((c) => c != null && c !== false));
	return element;
}

// say writes a text, and leaves the document alone where it is there already.
export function say(element, text) {
	if (element.textContent === text) return;
	const only = element.firstChild;
	if (only?.nodeType === Node.TEXT_NODE && !only.nextSibling) only.data = text; // no garbage
	else element.textContent = text;
}

// facts makes a list of names and values; pairs are [name, value] with null left out.
export function facts(pairs) {
	return h("dl", { class: "facts" }, pairs.filter(Boolean).map(([name, value]) =>
		h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

// table makes a table for a few rows. Cells are texts or elements; right lists the columns of numbers.
export function table(caption, heads, rows, right = []) {
	const side = (i) => (right.includes(i) ? "number" : null);
	return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
		h("table", {},
			h("caption", { class: "hidden" }, caption),
			h("thead", {}, h("tr", {}, heads.map((text, i) => h("th", { scope: "col", class: side(i) }, text)))),
			h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, i) => h("td", { class: side(i) }, cell)))))));
}

// refusal shows an error of a request to a program, the agent or the manager: what is wrong, and
// what to do.
export function refusal(err, program) {
	const text = err instanceof Problem ? `${err.field ? `${err.field}: ` : ""}${err.message}` : `The ${program} cannot be reached.`;
	return [h("p", { class: "problem", role: "alert" }, text), err.remedy && h("p", {}, `Remedy: ${err.remedy}.`)];
}

// once makes a listener of a button that calls act, and holds the button until that has ended.
export function once(act) {
	return async (e) => {
		const button = e.currentTarget;
		button.disabled = true;
		await act();
		button.disabled = false;
	};
}

// gauge makes a bar of what is reserved and what is used of a whole.
export function gauge() {
	return h("div", { class: "bar", role: "img" }, h("div", { class: "reserved" }), h("div", { class: "used" }));
}

// measure sets a gauge; reserved and used are parts of 1.
export function measure(bar, reserved, used, label) {
	const width = (part) => `${Math.min(100, 100 * (part || 0))}%`;
	if (bar.getAttribute("aria-label") === label) return;
	bar.setAttribute("aria-label", label);
	bar.children[0].style.width = width(reserved);
	bar.children[0].hidden = !(reserved > 0);
	bar.children[1].style.width = width(used);
}
