// SPDX-License-Identifier: Apache-2.0

// Package web serves a page of the agent or the manager (Program): files for a browser, and
// the public API to the page that they make. It decides nothing about policies; the page reads
// and changes what any client of the API can.
//
// weir web asks the agent for a link that works once, over the socket, so that the kernel
// says which user asks:
//
//	sessions, err := web.NewSessions("/var/lib/weir/web.key", web.Agent)
//	code, ends := sessions.Link(web.User{Name: "alice", Role: "change"})
//
// The page exchanges the code for a token (POST /session) and sends that with each request,
// as "Authorization: Bearer". Who has no token gets the files, which are the same on every
// host, and nothing else.
//
// There are no cookies: a browser sends a cookie of 127.0.0.1:7480 to each other port of
// 127.0.0.1 too, behind which any user of the host may listen. A token belongs to one
// origin, and no other site can send it.
package web
