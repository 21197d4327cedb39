// SPDX-License-Identifier: Apache-2.0
//
// The frame of a page: who is signed in, which view is shown, whether the program that serves it
// is there.
//
// The address says what is shown: "#/workload/web". An address that is a code ("#K3F..."), as
// weir web prints it, signs in first. A view is a function of an element and the parts of the
// address; it returns what ends it.

import { h, fill, say } from "./dom.js";
import { adopt, ask, open, session, signOut, Problem } from "./api.js";
import { clock } from "./units.js";

const themes = ["auto", "light", "dark"];

// frame begins the page of a program.
//
//	program  its name, and command, that which prints links to its page
//	away     what goes on while it does not answer
//	version  the path of an answer that has its version
//	views    {name, title, show}, the first is shown first; one under another has no link
//	follow   is called with a function to tell "live", "away" (it cannot be reached) and "out"
//	         (the session has ended); it goes on for ever
//	themed   is called after the colours have changed
export function frame({ program, command, away, version: versionPath, views, follow, themed = () => {} }) {
	const main = document.getElementById("main");
	const connection = document.getElementById("connection");
	const banner = document.getElementById("banner");
	const themeButton = document.getElementById("theme");
	let end = () => {};
	let problem; // why the last link did not open a session
	let state = "";
	let version = "";

	// show puts the view that the address names in place.
	function show() {
		const parts = location.hash.slice(2).split("/").map(decodeURIComponent);
		const view = views.find((v) => v.name === parts[0]) ?? views[0];
		for (const a of document.querySelectorAll("#views a")) {
			if (a.hash === `#/${view.under ?? view.name}`) a.setAttribute("aria-current", "page");
			else a.removeAttribute("aria-current");
		}
		end();
		end = () => {};
		document.title = [parts[1], view.title, "Weir"].filter(Boolean).join(" · ");
		if (!session()) {
			fill(main, welcome());
			return;
		}
		fill(main);
		end = view.show(main, parts.slice(1)) ?? end;
	}

	// welcome says how to sign in.
	function welcome() {
		return h("section", { class: "card narrow" },
			h("h1", {}, "Weir"),
			problem && h("p", { class: "problem", role: "alert" }, problem),
			h("p", {}, "Run this on the host, and open the link that it prints:"),
			h("pre", {}, command),
			h("p", { class: "soft" }, "The link works once and begins a session of 12 hours with your rights on that host."));
	}

	function present(next) {
		if (next === state) return;
		const before = state;
		state = next;
		connection.className = next;
		say(connection, { live: "live", away: "not connected", out: "signed out" }[next]);
		banner.hidden = next !== "away";
		if (next === "away") say(banner, `The ${program} has not answered since ${clock(Date.now() / 1000)}. ${away} Trying again every second.`);
		document.getElementById("signout").hidden = next === "out";
		if (next === "out" || (next === "live" && before === "out")) show();
		if (next === "live") upgraded();
	}

	// upgraded offers to load the page anew where the program has another version than this page.
	async function upgraded() {
		const now = (await ask(versionPath).catch(() => null))?.version;
		if (!now) return;
		if (version && now !== version) {
			banner.hidden = false;
			fill(banner, `The ${program} is ${now} now. `, h("button", { type: "button", onclick: () => location.reload() }, "Load its page"));
		}
		version ||= now;
	}

	function setTheme(theme) {
		if (theme === "auto") delete document.documentElement.dataset.theme;
		else document.documentElement.dataset.theme = theme;
		localStorage.setItem("weir-theme", theme);
		say(themeButton, `Theme: ${theme}`);
		themed();
	}

	// enter signs in where the address is a link of the command, also in a page that is open already.
	async function enter() {
		const code = /^#([A-Z2-7]{26})$/.exec(location.hash)?.[1];
		if (!code) return;
		history.replaceState(null, "", `#/${views[0].name}`);
		problem = await open(code).then(() => null, (err) => (err instanceof Problem ? `${err.message}.` : `The ${program} cannot be reached.`));
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
		fill(document.getElementById("views"), views.filter((v) => !v.under).map((v) => h("a", { href: `#/${v.name}` }, v.title)));
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
		follow(present);
	}

	start();
}
