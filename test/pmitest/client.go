// Package pmitest is what tests of package pmiserver use: its client, a hub, and conversations in files.
package pmitest

import "remshell/pmiserver/client"

// The client is that of the program itself.
type (
	Client  = client.Client
	Place   = client.RankAndSize
	Program = client.Program
)

// NewClient returns a client that has said nothing yet.
var NewClient = client.New
