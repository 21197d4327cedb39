// SPDX-License-Identifier: Apache-2.0
//
// The frame of the page: who is signed in, which view is shown, whether the agent is there.
//
// The address says what is shown: "#/workload/web". An address that is a code ("#K3F..."), as
// weir web prints it, signs in first. A view is a function of an element and the parts of the
// address; it returns what ends it.

import { h, fill, say } from "./dom.js";
import { adopt, ask, follow, open, path, session, signOut, Problem } from "./agent.js";
import { store } from "./store.js";
import { clock } from "./units.js";
import { linkView } from "./link.js";
import { workloadsView } from "./workloads.js";
import { workloadView } from "./workload.js";
import { changesView } from "./changes.js";
import { tryView } from "./try.js";

const views = [
	{ name: "link", title: "Link", show: linkView },
	{ name: "workloads", title: "Workloads", show: workloadsView },
	{ name: "workload", title: "Workload", show: workloadView, hidden: true },
	{ name: "changes", title: "Changes", show: changesView },
	{ name: "try", title: "Try", show: (main) => tryView(main, (query) => ask(`${path(["divide"])}?${query}`)) },
];

const main = document.getElementById("main");
let end = () => {};

// show puts the view that the address names in place.
function show() {
	const parts = location.hash.slice(2).split("/").map(decodeURIComponent);
	const view = views.find((v) => v.name === parts[0]) ?? views[0];
	for (const a of document.querySelectorAll("#views a")) {
		const here = a.hash === `#/${view.name}` || (view.name === "workload" && a.hash === "#/workloads");
		if (here) a.setAttribute("aria-current", "page");
		else a.removeAttribute("aria-current");
	}
	end();
	end = () => {};
	document.title = [parts[1], view.title, "Weir"].filter(Boolean).join(" · ");
	if (!session()) {
		fill(main, welcome(problem));
		return;
	}
	fill(main);
	end = view.show(main, parts.slice(1)) ?? end;
}

// welcome says how to sign in.
function welcome(problem) {
	return h("section", { class: "card narrow" },
		h("h1", {}, "Weir"),
		problem && h("p", { class: "problem", role: "alert" }, problem),
		h("p", {}, "Run this on the host, and open the link that it prints:"),
		h("pre", {}, "weir web"),
		h("p", { class: "soft" }, "The link works once and begins a session of 12 hours with your rights on that host."));
}

// --- the agent's presence ---

const connection = document.getElementById("connection");
const banner = document.getElementById("banner");
let state = "";
let version = "";

function present(next) {
	if (next === state) return;
	const before = state;
	state = next;
	connection.className = next;
	say(connection, { live: "live", away: "not connected", out: "signed out" }[next]);
	banner.hidden = next !== "away";
	if (next === "away") say(banner, `The agent has not answered since ${clock(Date.now() / 1000)}. Traffic is divided all the same. Trying again every second.`);
	document.getElementById("signout").hidden = next === "out";
	if (next === "out" || (next === "live" && before === "out")) show();
	if (next === "live") upgraded();
}

// upgraded offers to load the page anew where the agent has another version than this page.
async function upgraded() {
	const now = (await ask("/v1/status").catch(() => null))?.version;
	if (!now) return;
	if (version && now !== version) {
		banner.hidden = false;
		fill(banner, `The agent is ${now} now. `, h("button", { type: "button", onclick: () => location.reload() }, "Load its page"));
	}
	version ||= now;
}

// --- theme ---

const themes = ["auto", "light", "dark"];
const themeButton = document.getElementById("theme");

function setTheme(theme) {
	if (theme === "auto") delete document.documentElement.dataset.theme;
	else document.documentElement.dataset.theme = theme;
	localStorage.setItem("weir-theme", theme);
	say(themeButton, `Theme: ${theme}`);
	if (store.sample) for (const listener of store.listeners) listener(store.sample); // charts have colours of their own
}

// --- start ---

let problem; // why the last link did not open a session

// enter signs in where the address is a link of weir web, also in a page that is open already.
async function enter() {
	const code = /^#([A-Z2-7]{26})$/.exec(location.hash)?.[1];
	if (!code) return;
	history.replaceState(null, "", "#/link");
	problem = await open(code).then(() => null, (err) => (err instanceof Problem ? `${err.message}.` : "The agent cannot be reached."));
}

async function start() {
	setTheme(localStorage.getItem("weir-theme") ?? "auto");
	themeButton.onclick = () => setTheme(themes[(themes.indexOf(localStorage.getItem("weir-theme")) + 1) % 3]);
	document.getElementById("signout").onclick = () => {
		signOut();
		location.reload();
	};
	document.getElementById("skip").onclick = (e) => {
		e.preventDefault();
		main.focus();
	};
	fill(document.getElementById("views"), views.filter((v) => !v.hidden).map((v) => h("a", { href: `#/${v.name}` }, v.title)));
	await enter();
	if (!session()) await adopt();
	window.onhashchange = async () => {
		await enter();
		show();
		main.focus({ preventScroll: true });
		scrollTo(0, 0);
	};
	document.addEventListener("keydown", (e) => {
		const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName);
		const filter = document.querySelector("input[type=search]");
		if (e.key === "/" && !typing && filter) {
			e.preventDefault();
			filter.focus();
		}
	});
	show();
	follow((sample) => {
		store.take(sample);
		if (!performance.getEntriesByName("first-sample").length) performance.mark("first-sample"); // what the browser suite measures
	}, present);
}

start();
