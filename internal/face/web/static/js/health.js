// SPDX-License-Identifier: Apache-2.0
//
// What is wrong, in the header of every view: how many problems there are, and a list of them with
// their remedies.

import { h, fill, say } from "./dom.js";

// healthIn fills the button and the list of the header, and returns what takes the problems of a
// sample.
export function healthIn(button, list) {
	let shown = null;
	button.onclick = () => {
		const open = list.hidden;
		list.hidden = !open;
		button.setAttribute("aria-expanded", String(open));
	};
	return (problems) => {
		const now = JSON.stringify(problems);
		if (now === shown) return;
		shown = now;
		button.hidden = false;
		button.disabled = !problems.length;
		button.className = problems.some((p) => p.severity === "error") ? "error" : problems.length ? "warn" : "well";
		say(button, problems.length === 0 ? "all is well" : problems.length === 1 ? "1 problem" : `${problems.length} problems`);
		if (!problems.length) {
			list.hidden = true;
			button.setAttribute("aria-expanded", "false");
		}
		fill(list, h("ul", {}, problems.map((p) => h("li", { class: p.severity },
			h("span", {}, p.text), p.remedy && h("span", { class: "soft" }, ` What to do: ${p.remedy}.`)))));
	};
}
