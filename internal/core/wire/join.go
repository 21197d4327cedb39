// SPDX-License-Identifier: Apache-2.0

package wire

import "errors"

// JoinRequest is the request of a node that has a token and no certificate (POST
// /v1/join, over TLS that it has checked by the token).
type JoinRequest struct {
	Token   string `json:"token" maxLength:"64" doc:"id of the token"`
	Secret  string `json:"secret" maxLength:"128" doc:"of the token"`
	Node    string `json:"node" maxLength:"63" doc:"the name that it wants"`
	Request []byte `json:"request" doc:"signing request for its key: PKCS #10, DER"`
}

// RenewRequest asks for a new certificate of a member (POST /v1/renew). It travels
// sealed by the member's key, for RenewSubject, over TLS that has checked the manager.
// No certificate is shown with it: the one that the member had may have ended.
type RenewRequest struct {
	Request []byte `json:"request" doc:"signing request for the same key: PKCS #10, DER"`
}

// SealedRenewRequest carries a RenewRequest in its envelope.
type SealedRenewRequest struct {
	Sealed []byte `json:"sealed" doc:"RenewRequest, sealed by the member's key"`
}

// Kind implements Message.
func (RenewRequest) Kind() string { return "renew" }

// Check implements Message.
func (r RenewRequest) Check() error {
	if len(r.Request) == 0 {
		return errors.New("request is missing")
	}
	return nil
}

// JoinAnswer makes a node a member, or goes on with its membership.
type JoinAnswer struct {
	Certificate []byte `json:"certificate" doc:"PEM; after it, the chain that is shown with it"`
	Authority   []byte `json:"authority" doc:"PEM: the authority that signed it, then others that are trusted"`
	Info        Info   `json:"info"`
}

// Info has what a member has to know of its cluster (GET /v1/info).
type Info struct {
	Manager  []byte `json:"manager" doc:"the manager's certificate, PEM: its key signs orders"`
	Bus      string `json:"bus" doc:"nats, or kafka://HOST:PORT,..." example:"nats"`
	BusPort  int    `json:"bus_port,omitempty" doc:"of nats, on the manager's host"`
	Registry string `json:"registry,omitempty" doc:"host:port of the image registry for migrations, manager for the manager's own"`
}

// OwnRegistry is in the place of a registry's host:port where the manager's own is
// meant, which each node's engine reaches by its agent.
const OwnRegistry = "manager"
