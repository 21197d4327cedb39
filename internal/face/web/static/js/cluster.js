// SPDX-License-Identifier: Apache-2.0
//
// The manager's page: its views.

import { path } from "./api.js";
import { frame } from "./frame.js";
import { cluster, presence } from "./poll.js";
import { nodesView } from "./nodes.js";
import { nodeView } from "./node.js";
import { planView } from "./plan.js";
import { movesView } from "./moves.js";
import { changesView } from "./changes.js";

frame({
	program: "manager",
	command: "weir manager web",
	away: "Nodes go on without it.",
	version: path(["cluster"]),
	views: [
		{ name: "nodes", title: "Nodes", show: nodesView },
		{ name: "node", title: "Node", show: nodeView, under: "nodes" },
		{ name: "plan", title: "Plan", show: planView },
		{ name: "moves", title: "Moves", show: movesView },
		{ name: "changes", title: "Changes", show: changesView },
	],
	follow: (present) => presence(path(["cluster"]), (c) => cluster.take(c), present),
});
