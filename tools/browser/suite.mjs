// SPDX-License-Identifier: Apache-2.0
//
// The agent's page in a real browser; scripts/browser starts it beside an agent with traffic.
// Arguments: run the tests with one of these in their names.

import { strict as assert } from "node:assert";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { extname } from "node:path";
import { bare, browser, cpuOf, looks, run, sleep, sound, visitor, weir as command } from "./lib.mjs";

const { WORK, WEIR, PICTURES } = process.env;

const weir = (...args) => command("--socket", `${WORK}/weir.sock`, ...args);
const link = () => JSON.parse(weir("web", "-o", "json")).url;
const visit = visitor(link, "#/link");

const views = {
	link: { path: "#/link", ready: ".plot canvas" },
	workloads: { path: "#/workloads", ready: ".space .row canvas" },
	heat: { path: "#/workloads/heat", ready: ".space .row canvas" },
	workload: { path: "#/workload/web", ready: ".sentences p:not(.soft)" },
	changes: { path: "#/changes", ready: ".log tbody tr" },
	try: { path: "#/try", ready: ".division div" },
};

const tests = {
	async "a visitor without a session sees how to get one"() {
		const page = await (await browser.newContext()).newPage();
		page.errors = [];
		page.on("pageerror", (err) => page.errors.push(String(err)));
		await page.goto("http://127.0.0.1:7480/");
		await page.waitForSelector("text=weir web");
		await sound(page, "without a session");
		const url = link();
		await page.goto(url);
		await page.waitForSelector("#connection.live");
		const again = await (await browser.newContext()).newPage();
		await again.goto(url);
		await again.waitForSelector("text=the link is not known");
		await page.context().close();
		await again.context().close();
	},

	async "the documentation's link to play with"() {
		const kinds = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm" };
		const server = createServer((request, response) => {
			try {
				const file = request.url === "/" ? "/index.html" : request.url;
				const body = readFileSync(`${WORK}/trial${file}`);
				response.setHeader("Content-Type", kinds[extname(file)]);
				response.end(body);
			} catch {
				response.writeHead(404).end();
			}
		}).listen(7482, "127.0.0.1");
		await once(server, "listening");
		for (const [width, theme] of [[360, "light"], [1280, "dark"]]) {
			const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: theme });
			const page = await context.newPage();
			page.errors = [];
			page.on("console", (m) => { if (m.type() === "error" || m.type() === "warning") page.errors.push(m.text()); });
			page.on("pageerror", (err) => page.errors.push(String(err)));
			await page.route("**/favicon.ico", (route) => route.fulfill({ status: 204 }));
			await page.goto("http://127.0.0.1:7482/");
			const rates = () => page.$$eval(".big", (list) => list.map((e) => e.textContent).join(", "));
			await page.waitForSelector(".division div");
			assert.equal(await rates(), "30 Mbit/s, 28 Mbit/s, 42 Mbit/s");
			await page.click("text=Too many promises");
			await page.waitForSelector("text=which is more than the link's 100 Mbit/s");
			await page.click("text=By weight");
			await page.fill("#try-0-weight", "10");
			await page.waitForFunction(() => document.querySelector(".big").textContent === "66.7 Mbit/s");
			await sound(page, `the documentation's, ${width} px`);
			await context.close();
		}
		server.close();
	},

	async "first view"() {
		const page = await visit();
		const cdp = await page.context().newCDPSession(page);
		await cdp.send("Network.enable");
		await cdp.send("Network.setCacheDisabled", { cacheDisabled: true });
		const times = [];
		for (let i = 0; i < 5; i++) {
			await page.reload();
			await page.waitForSelector(".plot canvas");
			times.push(await page.evaluate(() => performance.getEntriesByName("first-sample")[0].startTime - performance.getEntriesByType("navigation")[0].responseStart));
		}
		const ms = times.slice().sort((a, b) => a - b)[2];
		console.log(`first view ${Math.round(ms)} ms after the first byte, median of ${times.map(Math.round)}`);
		assert.ok(ms <= 300, `${ms} ms`);
		const bytes = await page.evaluate(() => performance.getEntriesByType("resource").concat(performance.getEntriesByType("navigation")).filter((r) => !r.name.includes("/v1/")).reduce((n, r) => n + r.encodedBodySize, 0));
		console.log(`${bytes} bytes of files`);
		assert.ok(bytes <= 200_000);
		await page.context().close();
	},

	async "a preview shows the losers, applying is quick and logged, undo restores"() {
		const page = await visit({ path: "#/workload/phone", height: 1110 });
		await page.fill("#edit-min", "12mbit");
		await page.click("text=Preview");
		await page.waitForSelector(".loss");
		const losers = await page.locator(".loss").allInnerTexts();
		assert.ok(losers.length > 0, "nobody loses");
		await page.waitForSelector("text=min 2 Mbit/s -> 12 Mbit/s");
		await page.locator("section.card", { has: page.locator("form") }).screenshot({ path: `${PICTURES}/preview.png` });
		await sound(page, "the preview");
		await page.click("text=Apply");
		const done = await page.locator("p.done").innerText();
		const ms = Number(/(\d+) ms/.exec(done)[1]);
		console.log(`applied in ${ms} ms`);
		assert.ok(ms <= 200, done);
		assert.equal(JSON.parse(weir("get", "phone", "-o", "json")).policy.min, "12mbit");
		await page.waitForSelector(".log >> text=web root");
		await page.waitForSelector(".log >> text=min 2mbit → 12mbit");
		await page.fill("#edit-min", "90mbit");
		await page.click("text=Preview");
		await page.waitForSelector(".problem >> text=no room");
		await page.waitForSelector("text=Remedy");
		await page.click("text=Undo the last change");
		await page.waitForSelector("text=The change was undone");
		const after = JSON.parse(weir("get", "phone", "-o", "json"));
		assert.equal(after.policy.min, "2mbit");
		assert.equal(after.origin.min, "config");
		const refused = page.errors.filter((e) => !e.includes("409"));
		assert.deepEqual(refused, []);
		await page.context().close();
	},

	async "a session with the role view sees no editor"() {
		const page = await visit();
		await page.evaluate(() => { const s = JSON.parse(localStorage["weir-session"]); s.role = "view"; localStorage["weir-session"] = JSON.stringify(s); });
		await page.goto("http://127.0.0.1:7480/#/workload/web");
		await page.reload();
		await page.waitForSelector("text=may look and change nothing");
		assert.equal(await page.locator("#edit-min").count(), 0);
		await page.context().close();
	},

	async "a second tab has samples, and goes on when the first is closed"() {
		const first = await visit();
		const tabs = [];
		for (let i = 0; i < 8; i++) {
			const tab = await first.context().newPage();
			await tab.goto("http://127.0.0.1:7480/#/link");
			await tab.waitForSelector("#connection.live", { timeout: 10_000 });
			await tab.waitForSelector(".plot canvas");
			tabs.push(tab);
		}
		await first.close();
		for (const tab of tabs) {
			await tab.waitForSelector("#connection.live", { timeout: 10_000 });
			const at = await tab.locator(".head .soft").last().innerText();
			await tab.waitForFunction((was) => [...document.querySelectorAll(".head .soft")].at(-1).textContent !== was, at, { timeout: 10_000 });
		}
		await tabs[0].context().close();
	},

	async "the keyboard reaches every row"() {
		const page = await visit({ path: "#/workloads" });
		await page.waitForSelector(".space .row canvas");
		await page.keyboard.press("/");
		assert.equal(await page.evaluate(() => document.activeElement.id), "filter");
		await page.keyboard.type("web");
		await page.waitForFunction(() => document.querySelectorAll(".space .row").length === 1);
		await page.fill("#filter", "");
		await page.focus(".rows");
		for (let i = 0; i < 3; i++) await page.keyboard.press("ArrowDown");
		assert.equal(await page.evaluate(() => document.activeElement.closest(".row").getAttribute("aria-rowindex")), "4");
		await page.selectOption("#grouping", "group");
		await page.waitForSelector(".row.heading >> text=tenant-b");
		await page.context().close();
	},

	async "the heat map shows who sent when"() {
		const page = await visit({ path: "#/workloads/heat" });
		await page.waitForSelector(".space .row .strip");
		await sleep(3500);
		// How strong the newest cell of a workload is, 0 to 255.
		const newest = (name) => page.evaluate((n) => {
			const row = [...document.querySelectorAll(".space .row")].find((r) => r.querySelector("a")?.textContent === n);
			const strip = row.querySelector(".strip");
			const c = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
			c.drawImage(strip, 1 - strip.width, 0);
			return c.getImageData(0, 0, 1, 1).data[3];
		}, name);
		assert.ok(await newest("web") > await newest("phone") + 20, `web ${await newest("web")}, phone ${await newest("phone")}`);
		const box = await page.locator(".space .row", { hasText: "web" }).first().locator(".strip").boundingBox();
		await page.mouse.move(box.x + box.width - 3, box.y + 10);
		await page.waitForFunction(() => /^web, \d\d:\d\d:\d\d: [\d.]+ .bit\/s of [\d.]+ .bit\/s \(\d+ %\)$/.test(document.querySelector(".cell").textContent));
		await page.locator("main").screenshot({ path: `${PICTURES}/heat.png` });
		await page.selectOption("#measure", "lack");
		await page.waitForSelector(".scale.lack");
		assert.ok(await newest("web") < 40, `web lacks ${await newest("web")} of 255`);
		await page.selectOption("#span", "last minute");
		await page.waitForFunction(() => /^[1-5]?\d s ago/.test(document.querySelector(".heat .top .history").textContent));
		assert.deepEqual(page.errors, []);
		await page.context().close();
	},

	async "the sliders divide as the agent does"() {
		const page = await visit({ path: "#/try" });
		await page.click("text=With a max");
		const shares = async () => page.locator(".big").allInnerTexts();
		await page.waitForFunction(() => document.querySelectorAll(".big")[2].textContent === "15 Mbit/s");
		assert.deepEqual(await shares(), ["30 Mbit/s", "55 Mbit/s", "15 Mbit/s"]);
		await page.click("text=Too many promises");
		await page.waitForSelector("text=Weir refuses this");
		await page.context().close();
	},
};

looks(tests, visit, views);

// An agent in memory with 1,000 workloads (TestStreamsShareSamples serves it).
const many = () => JSON.parse(command("--socket", `${WORK}/many/weir.sock`, "web", "-o", "json")).url;
const visitMany = () => visitor(many, "#/workloads")({ width: 1920, height: 1080 });

tests["1,000 workloads: 20 streams"] = async () => {
	const url = new URL(many());
	const { token } = await (await fetch(`${url.origin}/session`, { method: "POST", body: JSON.stringify({ code: url.hash.slice(1) }) })).json();
	const stop = new AbortController();
	let bytes = 0;
	for (let i = 0; i < 20; i++) {
		fetch(`${url.origin}/v1/stream`, { headers: { Authorization: `Bearer ${token}` }, signal: stop.signal })
			.then(async (r) => { for await (const chunk of r.body) bytes += chunk.length; }).catch(() => {});
	}
	await sleep(3000);
	const seconds = () => cpuOf(process.env.MANY_PID);
	const [before, sent] = [seconds(), bytes];
	await sleep(10_000);
	const cpu = (seconds() - before) * 10;
	console.log(`20 streams of 1,000 workloads: ${cpu.toFixed(1)} % of a CPU, ${Math.round((bytes - sent) / 200e3)} kB a second each`);
	stop.abort();
	assert.ok(bytes > sent && cpu <= 5, `${cpu} %`);
};

// Goes down the table by 300 frames, and returns the times between them in ms.
const SCROLL = `new Promise((done) => {
	const box = document.querySelector(".rows");
	const gaps = [];
	let last = performance.now();
	requestAnimationFrame(function frame(now) {
		gaps.push(now - last);
		last = now;
		box.scrollTop = (box.scrollTop + 40) % (box.scrollHeight - box.clientHeight);
		if (gaps.length < 300) requestAnimationFrame(frame);
		else done(gaps);
	});
})`;

tests["1,000 workloads: scrolling, heat map"] = async () => {
	const page = await visitMany();
	await page.waitForSelector(".space .row canvas");
	await sleep(2000);
	await browser.startTracing(page, { categories: ["cc"] });
	const gaps = await page.evaluate(SCROLL);
	const trace = JSON.parse(await browser.stopTracing()).traceEvents;
	// Time on the CPU of the page's thread, in which other programs do not count.
	const frames = trace.filter((e) => e.name === "ProxyMain::BeginMainFrame" && e.tdur);
	const work = frames.reduce((sum, e) => sum + e.tdur / 1000, 0) / frames.length;
	assert.ok(frames.length > 100, `${frames.length} frames in the trace`);
	const took = gaps.reduce((a, b) => a + b, 0);
	console.log(`scrolling: ${work.toFixed(1)} ms of CPU a frame, ${(gaps.length / took * 1000).toFixed(0)} frames a second, median ${gaps.sort((a, b) => a - b)[150].toFixed(1)} ms`);
	// 60 frames a second are 16.7 ms each, which the page shares with the browser's other threads.
	// How many there are depends on what else the computer does.
	assert.ok(work <= 8, `${work} ms of CPU a frame`);
	// Delays are those of the agent in memory: the fallback measures none.
	await page.evaluate(() => { location.hash = "#/workloads/heat"; });
	await page.selectOption("#measure", "delay");
	await page.waitForSelector(".scale.delay");
	// One that can be seen: rows stand in the document in the order in which they came into it.
	const strip = await page.evaluate(() => {
		const box = document.querySelector(".rows").getBoundingClientRect();
		return [...document.querySelectorAll(".space .row .strip")].map((s) => s.getBoundingClientRect().toJSON()).find((r) => r.top > box.top + 60 && r.bottom < box.bottom);
	});
	await page.mouse.move(strip.x + strip.width - 3, strip.y + 10);
	await page.waitForFunction(() => /^shop[^,]*, [\d:]+: p99 [\d.]+ ms$/.test(document.querySelector(".cell").textContent))
		.catch(async (err) => { throw new Error(`${err.message}: the cell says ${await page.textContent(".cell")}`); });
	await page.evaluate(() => { location.hash = "#/workloads"; });
	await page.waitForSelector(".space .row canvas");
	assert.ok(await page.locator(".space .row").count() < 60, "rows that nobody sees are in the document");
	await page.evaluate(() => { location.hash = "#/link"; });
	await page.waitForSelector(".plot canvas");
	await sleep(2000);
	// Those that have no band of their own are one together.
	const rest = page.locator("tr", { hasText: /\d more/ }).locator("td.number");
	for (const i of [0, 1]) assert.match(await rest.nth(i).textContent(), /^[1-9]/, "the rate and the ideal of the rest");
	assert.deepEqual(page.errors, []);
	await page.context().close();
};

tests["1,000 workloads: memory"] = async () => {
	const page = await bare(many());
	let most = 0;
	const weigh = async (what) => {
		const use = await page.memory();
		console.log(`memory of the tab, ${what}: ${use.toFixed(0)} MB`);
		most = Math.max(most, use);
	};
	const show = async (view, ready) => {
		await page.evaluate(`location.hash = "#/${view}"`);
		await sleep(8000);
		assert.ok(await page.evaluate(`document.querySelector("#connection.live") && document.querySelector("${ready}") && true`), view);
	};
	try {
		await show("link", ".plot canvas");
		await weigh("link");
		await show("workloads", ".space .row canvas");
		await page.evaluate(SCROLL);
		await weigh("scrolled");
		await show("workloads/heat", ".space .row .strip");
		await weigh("heat map");
		// An hour of samples: what a ring holds takes memory only once it has been written.
		await page.evaluate(`import("/js/store.js").then(({ store }) => {
			for (const all of store.links.values()) for (const s of all.values()) for (const ring of [s.rates, s.ideals]) ring.codes.fill(40_000);
		})`);
		await show("workloads", ".space .row canvas");
		await page.evaluate(SCROLL);
		await weigh("an hour kept");
	} finally {
		await page.close();
	}
	assert.ok(most <= 150, `${most} MB`);
};

tests["charts forget who is gone, and begin anew where the clock was set back"] = async () => {
	const page = await visit();
	const [series, rows, newest] = await page.evaluate(async () => {
		const { HOUR, Store } = await import("/js/store.js");
		const s = new Store();
		const take = (at, key) => s.take({ at: new Date(1000 * at).toISOString(), links: [], workloads: [{ key, name: key, links: [{ device: "e", direction: "egress", rate_bps: 1, ideal_bps: 1 }] }] });
		for (let at = 1; at <= 3 * HOUR; at++) take(at, `pod ${Math.floor(at / 60)}`);
		const series = s.links.get("e/egress").size;
		take(2 * HOUR, "back");
		take(2 * HOUR + 1, "back");
		return [series, s.window(60).length, s.times[s.head] - 2 * HOUR];
	});
	assert.ok(series >= 60 && series <= 62, `${series} series of 60 in an hour`);
	assert.deepEqual([rows, newest], [2, 1], "rows, and the newest");
	await page.context().close();
};

tests["a workload that has gone leaves no row, not even under the keyboard"] = async () => {
	const page = await visit({ path: "#/workloads" });
	await page.waitForSelector(".space .row a");
	const [here, left, focus] = await page.evaluate(async () => {
		const { store } = await import("/js/store.js");
		const of = (key) => [...document.querySelectorAll(".space .row a")].filter((a) => a.dataset.key === key);
		const { key } = store.sample.workloads[0];
		of(key)[0].focus();
		const here = of(key).length;
		store.take({ ...store.sample, workloads: store.sample.workloads.filter((w) => w.key !== key) });
		return [here, of(key).length, document.activeElement.className];
	});
	assert.deepEqual([here, left], [1, 0], "rows before and after");
	assert.match(focus, /rows/, "where the keyboard is");
	await page.context().close();
};

tests["samples that cannot be shown hold no connections"] = async () => {
	const page = await visit();
	let open = 1; // since the visit
	page.on("request", (r) => { if (r.url().endsWith("/v1/stream")) open++; });
	for (const how of ["requestfinished", "requestfailed"]) page.on(how, (r) => { if (r.url().endsWith("/v1/stream")) open--; });
	await page.evaluate(async () => {
		const { store } = await import("/js/store.js");
		window.well = store.on(() => { throw new Error("it cannot be shown"); });
	}).catch(() => {}); // it throws at once
	await sleep(9000);
	assert.ok(open <= 1, `${open} streams are open`);
	await page.context().close();
};

// Safari cannot read an answer into memory of the page's own.
tests["a browser without byte streams has samples too"] = async () => {
	const page = await visit();
	await page.addInitScript(() => {
		const { getReader } = ReadableStream.prototype;
		ReadableStream.prototype.getReader = function (options) {
			if (options?.mode) throw new TypeError("no byte stream");
			return getReader.call(this);
		};
	});
	await page.reload();
	await page.waitForSelector("#connection.live");
	await page.waitForSelector("text=Free for mins"); // of a sample
	assert.deepEqual(page.errors, []);
	await page.context().close();
};

tests["samples are read as they were sent"] = async () => {
	const page = await visit();
	const differ = await page.evaluate(async () => {
		const { Reader } = await import("/js/samples.js");
		const samples = new Reader();
		let seed = 1;
		const random = (n) => (seed = (seed * 48271) % 2147483647) % n; // of Park and Miller
		const number = () => [random(1e6), -random(1e6), random(1e9) / 1e4, 1e21, 1.5e-9, 0.1 + 0.2, 2 ** 53 - 1, 1234567890.1234567][random(8)];
		const make = (key) => ({
			key: `k${key}`, name: ["a", "b"][random(9) ? 0 : 1], links: Array.from({ length: 1 + (random(12) ? 0 : 1) }, () => ({
				rate_bps: number(), min_bps: random(9) ? 5 : null, ...(random(9) ? {} : { score: { kept: number(), text: `${random(9)} "\\\u00fc[{` } }), drops: { full: random(3) } })),
			warnings: random(9) ? [] : ["w"],
		});
		const differ = [];
		for (let i = 0; i < 500; i++) {
			const keys = Array.from({ length: 5 + (random(7) ? 0 : random(3)) }, (_, k) => k);
			if (!random(7)) keys.reverse();
			const sample = { at: `"workloads":[${i}`, links: [{ workloads: 3 }], workloads: keys.map(make), groups: [] };
			const got = JSON.stringify(await samples.read(new TextEncoder().encode(JSON.stringify(sample))));
			if (got !== JSON.stringify(sample)) differ.push([i, got, sample]);
		}
		return differ.slice(0, 1);
	});
	assert.deepEqual(differ, []);
	await page.context().close();
};

// Texts of quantities are those of the command line (TestUnits makes the file).
tests["units are written as on the command line"] = async () => {
	const page = await visit();
	const cases = JSON.parse(readFileSync("internal/face/web/testdata/units.json", "utf8"));
	for (const [name, value, want] of cases) {
		const got = await page.evaluate(async ([f, v]) => (await import("/js/units.js"))[f](v), [name, value]);
		assert.equal(got, want, `${name}(${value})`);
	}
	await page.context().close();
};

// It comes last: it stops the agent.
tests["the page says that the agent is away, and comes back"] = async () => {
	const page = await visit();
	process.kill(Number(process.env.AGENT_PID));
	await page.waitForSelector("#connection.away");
	await page.waitForSelector("#banner >> text=Traffic is divided all the same");
	page.errors.length = 0; // the browser says that it cannot connect
	await sound(page, "away");
	const agent = spawn(WEIR, ["agent", "--config", `${WORK}/weir.yaml`], { stdio: "ignore" });
	try {
		await page.waitForSelector("#connection.live", { timeout: 20_000 });
		assert.ok(await page.locator("#banner").isHidden());
	} finally {
		agent.kill();
		await new Promise((done) => agent.on("exit", done));
	}
};

await run(tests);
