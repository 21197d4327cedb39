// SPDX-License-Identifier: Apache-2.0
//
// The manager's page in a real browser; scripts/browser starts it beside clusters in memory of 12
// and of 1,000 nodes. Arguments: run the tests with one of these in their names.

import { strict as assert } from "node:assert";
import { bare, browser, cpuOf, looks, run, sleep, sound, visitor, weir } from "./lib.mjs";

const { WORK, LARGE_PID } = process.env;
const link = (cluster) => JSON.parse(weir("manager", "web", "--manager-socket", `${WORK}/${cluster}/manager.sock`, "-o", "json")).url;
const visit = visitor(() => link("cluster"), "#/nodes");

const plan = (page) => page.click("main button.main");
const views = {
	nodes: { path: "#/nodes", ready: ".nodes tbody tr .bar" },
	node: { path: "#/node/n0001", ready: ".resource .bar" },
	plan: { path: "#/plan", ready: ".pair .bar", act: plan },
	moves: { path: "#/moves", ready: "td >> text=rolled-back" },
	"cluster changes": { path: "#/changes", ready: ".log tbody tr" },
};

const tests = {
	async "the cluster's page says how to get a session"() {
		const page = await (await browser.newContext()).newPage();
		page.errors = [];
		page.on("pageerror", (err) => page.errors.push(String(err)));
		await page.goto(new URL(link("cluster")).origin);
		await page.waitForSelector("text=weir manager web");
		await sound(page, "without a session");
		await page.context().close();
	},

	async "a container is moved after a preview, step by step, and a move is cancelled"() {
		const page = await visit({ path: "#/node/n0003" });
		await page.click("[aria-label='Move batch']");
		await page.click("text=Preview");
		await page.waitForSelector(".problem >> text=has a device that n0000 lacks");
		await page.waitForSelector("text=Remedy: choose another node");
		assert.equal(await page.locator("[aria-label='Move db']:visible").count(), 0, "db is pinned");
		await page.click("[aria-label='Move web']");
		await page.selectOption("#move-to", "n0004");
		await page.click("text=Preview");
		await page.waitForSelector("text=Move web to n0004");
		await page.selectOption("#move-to", "n0005"); // of which no preview says anything
		assert.equal(await page.locator("text=Move web to").count(), 0);
		// Nor does one that answers after the choice was changed.
		await page.route("**/v1/moves?dry_run=true", async (route) => { await sleep(500); await route.continue(); });
		await page.click("text=Preview");
		await page.selectOption("#move-to", "n0004");
		await sleep(1500);
		assert.equal(await page.locator("text=Move web to").count(), 0);
		await page.unroute("**/v1/moves?dry_run=true");
		await page.click("text=Preview");
		await page.click("text=Move web to n0004");
		await page.waitForSelector("h2 >> text=web: n0003 → n0004");
		await page.waitForSelector(".steps .now");
		await page.waitForFunction(() => document.querySelectorAll(".steps .done").length === 6 && !document.querySelector(".steps .now"));
		await page.waitForSelector(".head .result.done");
		page.errors = page.errors.filter((e) => !e.includes("409")); // the browser's word for a refusal
		await sound(page, "a move");
		await page.evaluate(() => { location.hash = "#/node/n0005"; });
		await page.click("[aria-label='Move web']");
		await page.click("text=Preview");
		await page.click("text=Move web to n0000");
		await page.click("[aria-label='Cancel the move of web']");
		await page.waitForSelector("text=web goes back to n0005");
		await page.click("text=Cancel it");
		await page.waitForSelector("td >> text=cancelled");
		await page.context().close();
	},

	async "a plan is looked at before its moves are ordered"() {
		const page = await visit({ path: "#/plan" });
		await page.fill("#max", "3");
		await plan(page);
		await page.waitForSelector("text=0.1200 → 0.0100");
		await page.waitForSelector("td >> text=evens out cpu between n0000 and n0001");
		await page.fill("#max", ""); // what is ordered is what was planned
		const ordered = [];
		page.on("request", (r) => { if (r.url().endsWith("/v1/rebalance")) ordered.push(r.postDataJSON()); });
		await page.dblclick("text=Order these moves");
		await page.waitForSelector("text=The moves are ordered");
		await page.click("text=See how they go");
		await page.waitForSelector("h2 >> text=web: n0000 → n0001");
		assert.deepEqual(ordered, [{ algorithm: "local", max_moves: 3 }]);
		assert.deepEqual(page.errors, []);
		await page.context().close();
	},

	async "a viewer plans and moves nothing"() {
		const page = await visit();
		await page.evaluate(() => { const s = JSON.parse(localStorage["weir-session"]); s.role = "view"; localStorage["weir-session"] = JSON.stringify(s); });
		for (const [path, text] of [["#/plan", "may look only"], ["#/node/n0001", "shop/web"]]) {
			await page.evaluate((p) => { location.hash = p; }, path);
			await page.waitForSelector(`text=${text}`);
			assert.equal(await page.locator("main button.main:visible, main .small:visible").count(), 0, path);
		}
		await page.context().close();
	},

	async "a manager that hangs is away, and so is what a refusal hides"() {
		const page = await visit();
		await page.route("**/v1/cluster", () => {}); // no answer ever
		await page.waitForSelector("#connection.away", { timeout: 15_000 });
		await page.waitForSelector("#banner >> text=Nodes go on without it");
		await page.unroute("**/v1/cluster");
		await page.waitForSelector("#connection.live", { timeout: 15_000 });
		const busy = { status: 503, contentType: "application/problem+json", body: JSON.stringify({ detail: "too many connections", remedy: "close a page" }) };
		await page.route("**/v1/nodes", (route) => route.fulfill(busy));
		await page.waitForSelector(".problem >> text=too many connections");
		await page.unroute("**/v1/nodes");
		await page.waitForFunction(() => !document.querySelector("p.problem"));
		await page.context().close();
	},

	async "nodes are sorted and filtered"() {
		const page = await visit();
		const names = () => page.locator(".nodes tbody a").allInnerTexts();
		await page.waitForSelector(".nodes tbody a");
		assert.equal((await names())[0], "n0000");
		await page.click("th >> text=Mins");
		assert.equal((await names())[0], "n0009");
		await page.keyboard.press("/");
		await page.keyboard.type("lost");
		await page.waitForFunction(() => document.querySelectorAll(".nodes tbody tr").length === 1);
		await page.waitForSelector(".problem >> text=not heard of for 1 h");
		await page.context().close();
	},
};

looks(tests, visit, views);

tests["1,000 nodes: 20 pages, sorting"] = async () => {
	const url = new URL(link("large"));
	const { token } = await (await fetch(`${url.origin}/session`, { method: "POST", body: JSON.stringify({ code: url.hash.slice(1) }) })).json();
	const ask = (path) => fetch(`${url.origin}/v1/${path}`, { headers: { Authorization: `Bearer ${token}` } }).then((r) => r.arrayBuffer());
	// What 20 pages with the nodes ask for, each at moments of its own.
	let i = 0;
	const timer = setInterval(() => { (i++ % 2 ? ["cluster"] : ["cluster", "nodes"]).forEach((p) => ask(p).catch(() => {})); }, 50);
	await sleep(2000);
	const before = cpuOf(LARGE_PID);
	await sleep(10_000);
	const cpu = (cpuOf(LARGE_PID) - before) * 10;
	clearInterval(timer);
	console.log(`20 pages of 1,000 nodes: ${cpu.toFixed(1)} % of a CPU`);
	const page = await visitor(() => link("large"), "#/nodes")({ width: 1920, height: 1080 });
	await page.waitForFunction(() => document.querySelectorAll(".nodes tbody tr").length === 200);
	await page.waitForSelector("text=Show the other 800");
	const ms = await page.evaluate(async () => {
		const begun = performance.now();
		document.querySelector(".nodes thead button").click();
		document.body.getBoundingClientRect();
		return performance.now() - begun;
	});
	console.log(`sorting 1,000 nodes: ${ms.toFixed(0)} ms`);
	assert.ok(cpu <= 5, `${cpu} %`);
	assert.deepEqual(page.errors, []);
	await page.context().close();
};

tests["1,000 nodes: memory"] = async () => {
	const page = await bare(link("large"));
	try {
		await sleep(2000);
		await page.evaluate(`location.hash = "#/nodes"`);
		await sleep(10_000);
		assert.equal(await page.evaluate(`document.querySelectorAll(".nodes tbody tr").length`), 200);
		const use = await page.memory();
		console.log(`memory of the tab: ${use.toFixed(0)} MB`);
		assert.ok(use <= 150, `${use} MB`);
	} finally {
		await page.close();
	}
};

await run(tests);
