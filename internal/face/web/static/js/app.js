// SPDX-License-Identifier: Apache-2.0
//
// The agent's page: its views, and the stream that they are drawn from.

import { ask, path } from "./api.js";
import { frame } from "./frame.js";
import { healthIn } from "./health.js";
import { follow } from "./stream.js";
import { store } from "./store.js";
import { linkView } from "./link.js";
import { workloadsView } from "./workloads.js";
import { workloadView } from "./workload.js";
import { changesView } from "./changes.js";
import { tryView } from "./try.js";

const health = healthIn(document.getElementById("health"), document.getElementById("problems"));

frame({
	program: "agent",
	command: "weir web",
	away: "Traffic is divided all the same.",
	version: "v1/status",
	views: [
		{ name: "link", title: "Link", show: linkView },
		{ name: "workloads", title: "Workloads", show: workloadsView },
		{ name: "workload", title: "Workload", show: workloadView, under: "workloads" },
		{ name: "changes", title: "Changes", show: changesView },
		{ name: "try", title: "Try", show: (main) => tryView(main, (query) => ask(`${path(["divide"])}?${query}`)) },
	],
	themed() { // charts have colours of their own
		if (store.sample) for (const listener of store.listeners) listener(store.sample);
	},
	follow(present) {
		follow((sample) => {
			store.take(sample);
			health(sample.problems ?? []);
			if (!performance.getEntriesByName("first-sample").length) performance.mark("first-sample"); // what the browser suite measures
		}, present);
	},
});
