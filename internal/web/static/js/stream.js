// SPDX-License-Identifier: Apache-2.0
//
// The agent's live stream. A worker reads and parses it (reader.js): for a thousand workloads
// that takes some 50 ms each second, in which nothing would move on the page.

import { session, signOut } from "./api.js";
import { Unpacker } from "./parcel.js";

// The page's policy lets it begin workers by this rule alone, which makes this one.
const rule = { createScriptURL: () => "/js/reader.js" };
const reader = () => (self.trustedTypes ? trustedTypes.createPolicy("weir", rule) : rule).createScriptURL("");

// follow calls each with every sample, and state with "live", "away" (the agent cannot be
// reached) or "out" (the session has ended). It goes on for ever.
export function follow(each, state) {
	const worker = new Worker(reader(), { type: "module" });
	const parcels = new Unpacker();
	worker.onmessage = ({ data }) => {
		if (data.state) state(data.state);
		if (data.parcel) each(parcels.open(data.parcel));
		if (data.wants === "session") worker.postMessage({ session: session() });
		if (data.refused !== undefined && data.refused === session()?.token) signOut();
	};
}
