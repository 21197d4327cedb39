// SPDX-License-Identifier: Apache-2.0
//
// Talks to the program that serves the page, the agent or the manager: the token of the session,
// and requests.

// place is the folder of this page, "" at the top: behind a proxy several hosts may have one origin,
// each at a path of its own.
export const place = location.pathname.replace(/[^/]*$/, "").replace(/^\/$/, "");

const kept = `weir-session${place}`;

// Problem is a refusal, as RFC 9457 has it.
export class Problem extends Error {
	constructor(status, body) {
		super(body.detail ?? body.title ?? `status ${status}`);
		this.status = status;
		this.remedy = body.remedy;
		this.field = body.field;
	}
}

// session returns who is signed in, null if nobody is.
export function session() {
	try {
		const s = JSON.parse(localStorage.getItem(kept));
		return s && Date.parse(s.ends) > Date.now() ? s : null;
	} catch {
		return null;
	}
}

export function signOut() { localStorage.removeItem(kept); }

// open exchanges the code of a link for a session.
export async function open(code) {
	const response = await fetch("session", { method: "POST", body: JSON.stringify({ code }), cache: "no-store" });
	const body = await response.json().catch(() => ({}));
	if (!response.ok) throw new Problem(response.status, body);
	localStorage.setItem(kept, JSON.stringify(body));
}

// adopt takes the session of a user whom a proxy in front of the page knows, if there is one.
export async function adopt() {
	const response = await fetch("session", { cache: "no-store" }).catch(() => null);
	if (response?.status === 200) localStorage.setItem(kept, JSON.stringify({ token: "", ...await response.json() }));
}

// ask sends a request and returns the answer's JSON. It throws a Problem where it is
// refused, and another error where it cannot be reached.
export async function ask(path, { method = "GET", body, signal } = {}) {
	const response = await send(path, { method, body, signal });
	return response.json();
}

export async function send(path, { method, body, signal }) {
	const token = session()?.token;
	const headers = token ? { Authorization: `Bearer ${token}` } : {};
	if (body) headers["Content-Type"] = "application/json";
	const response = await fetch(path, { method, headers, signal, body: body && JSON.stringify(body), cache: "no-store" });
	if (response.ok) return response;
	throw new Problem(response.status, await response.json().catch(() => ({})));
}

// path makes a path out of names and a query.
export function path(parts, query = {}) {
	const q = new URLSearchParams(query).toString();
	return `v1/${parts.map(encodeURIComponent).join("/")}${q ? `?${q}` : ""}`;
}

export const wait = (ms) => new Promise((done) => setTimeout(done, ms));
