// SPDX-License-Identifier: Apache-2.0
//
// The agent's view Try without an agent: the same code divides, as WebAssembly.

import { Problem } from "./js/api.js";
import { tryView } from "./js/try.js";

const go = new Go();
const program = await WebAssembly.instantiate(await (await fetch("divide.wasm")).arrayBuffer(), go.importObject);
go.run(program.instance);

tryView(document.getElementById("main"), async (query) => {
	const answer = JSON.parse(weirDivide(String(query)));
	if (answer.error) throw new Problem(422, { detail: answer.error });
	return answer;
});

// The frame that it is in is as high as it.
if (frameElement) new ResizeObserver(() => { frameElement.style.height = `${document.body.offsetHeight + 16}px`; }).observe(document.body);
