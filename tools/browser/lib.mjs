// SPDX-License-Identifier: Apache-2.0
//
// What the suites of both pages have in common: the browser, a page with a session of its own,
// the look for what is wrong with it, and the run of tests. A test is a function that throws.

import { strict as assert } from "node:assert";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";

const { CACHE, WEIR, PICTURES } = process.env;
const require = createRequire(`${CACHE}/`);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const weir = (...args) => execFileSync(WEIR, args, { encoding: "utf8" });
export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const CHROMIUM = "/usr/bin/chromium", FLAGS = ["--no-sandbox", "--disable-gpu"];
export const browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });

// visitor returns visit, which opens a page with a session of its own. Errors of the page become
// the test's. link makes a link; home is the view that is shown first.
export function visitor(link, home) {
	return async function visit({ width = 1280, height = 900, theme = "light", path = home } = {}) {
		const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme });
		const page = await context.newPage();
		const url = link();
		page.errors = [];
		page.on("console", (m) => { if (m.type() === "error" || m.type() === "warning") page.errors.push(m.text()); });
		page.on("pageerror", (err) => page.errors.push(String(err)));
		page.on("request", (r) => { if (!r.url().startsWith(new URL(url).origin)) page.errors.push(`a request to ${r.url()}`); });
		await page.goto(url);
		await page.waitForSelector("#connection.live").catch(async (err) => {
			throw new Error(`${err.message}\nthe page says: ${await page.innerText("body")}\nand its console: ${page.errors.join("; ")}`);
		});
		await page.evaluate((p) => { location.hash = p; }, path);
		return page;
	};
}

// sound fails where the page wrote an error, is wider than its window, or axe finds something.
export async function sound(page, what) {
	assert.deepEqual(page.errors, [], `${what}: console`);
	const [content, view] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
	assert.ok(content <= view, `${what}: ${content} px wide in a window of ${view} px`);
	const cdp = await page.context().newCDPSession(page); // the page's own policy forbids scripts that are added
	await cdp.send("Runtime.evaluate", { expression: axe });
	const { result } = await cdp.send("Runtime.evaluate", { expression: "axe.run().then((r) => JSON.stringify(r.violations.map((v) => [v.id, v.nodes.map((n) => n.html.slice(0, 160) + ' ' + n.failureSummary).slice(0, 3)])))", awaitPromise: true });
	assert.equal(result.value, "[]", `${what}: axe`);
}

// looks adds a test of every view, in both themes, narrow and wide, which leaves its picture.
export function looks(tests, visit, views) {
	for (const [name, view] of Object.entries(views)) {
		for (const theme of ["light", "dark"]) {
			for (const width of [360, 1920]) {
				tests[`view ${name}, ${theme}, ${width} px`] = async () => {
					const page = await visit({ width, height: width === 360 ? 760 : 1080, theme, path: view.path });
					await view.act?.(page);
					await page.waitForSelector(view.ready);
					await sleep(2500); // so that a few samples have come
					await page.screenshot({ path: `${PICTURES}/${name}-${theme}-${width}.png` });
					await sound(page, `${name} ${theme} ${width}`);
					await page.context().close();
				};
			}
		}
	}
}

// cpuOf returns the seconds of CPU that a process has used.
export function cpuOf(pid) {
	const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
	return (Number(fields[11]) + Number(fields[12])) / 100; // clock ticks of 10 ms
}

// bare opens url in a browser of its own that nobody watches, and returns evaluate, which runs an
// expression there, memory, the MB of the page's process as Chromium's task manager shows them,
// and close. What playwright drives keeps 20 MB of what the page has received, for its tools.
export async function bare(url) {
	const folder = mkdtempSync(`${tmpdir()}/weir-bare.`);
	const chromium = spawn(CHROMIUM, [...FLAGS, "--headless", "--no-first-run", "--window-size=1920,1080", "--remote-debugging-pipe", `--user-data-dir=${folder}`, "about:blank"],
		{ stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
	const waiting = []; // by id of what was asked: who takes the answer, who the error
	let over = null;
	const ended = new Promise((done) => {
		const end = () => {
			over = new Error("Chromium has ended");
			waiting.forEach(([, fail]) => fail(over));
			done();
		};
		chromium.on("exit", end).on("error", end);
		for (const pipe of chromium.stdio.slice(3)) pipe.on("error", () => {}); // it ends then
	});
	let text = "";
	chromium.stdio[4].setEncoding("utf8").on("data", (more) => {
		const answers = (text + more).split("\0");
		text = answers.pop();
		for (const { id, error, result } of answers.map((a) => JSON.parse(a))) waiting[id]?.[error ? 1 : 0](error ? new Error(error.message) : result);
	});
	const send = (method, params = {}, sessionId = undefined) => new Promise((...done) => {
		if (over) throw over;
		chromium.stdio[3].write(`${JSON.stringify({ id: waiting.push(done) - 1, method, params, sessionId })}\0`);
	});
	const close = async () => {
		chromium.kill();
		await ended;
		rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
	};
	let sessionId;
	const evaluate = async (expression) => {
		const { result, exceptionDetails } = await send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true }, sessionId);
		if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
		return result.value;
	};
	try {
		const { targetId } = await send("Target.createTarget", { url });
		({ sessionId } = await send("Target.attachToTarget", { targetId, flatten: true }));
		// Until the page is there, there is an empty one, or none.
		const there = `location.origin === "${new URL(url).origin}" && document.readyState === "complete"`;
		for (let tries = 0; !(await evaluate(there).catch(() => false)); tries++) {
			assert.ok(tries < 100, `${url} is not there`);
			await sleep(100);
		}
	} catch (err) {
		await close();
		throw err;
	}
	return {
		evaluate,
		async memory() {
			const { processInfo } = await send("SystemInfo.getProcessInfo");
			const field = (status, name) => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1] ?? 0) / 1000;
			return Math.max(...processInfo.filter((p) => p.type === "renderer").map((p) => {
				const status = readFileSync(`/proc/${p.id}/status`, "utf8");
				return field(status, "RssAnon") + field(status, "VmSwap");
			}));
		},
		close,
	};
}

// run runs tests, or those with one of the arguments in their names, and ends the process.
export async function run(tests) {
	const only = process.argv.slice(2);
	let failed = 0;
	for (const [name, test] of Object.entries(tests)) {
		if (only.length && !only.some((o) => name.includes(o))) continue;
		const begun = Date.now();
		try {
			await test();
			console.log(`ok    ${name} (${Date.now() - begun} ms)`);
		} catch (err) {
			failed++;
			console.log(`FAIL  ${name}: ${err.message}`);
		}
	}
	await browser.close();
	process.exit(failed ? 1 : 0);
}
