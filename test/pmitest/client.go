// Package pmitest has helpers for tests of package pmiserver: a PMI client, a fence coordinator, and scripted ranks.
package pmitest

import "remshell/pmiserver/client"

// The types of package pmiserver/client.
type (
	Client      = client.Client
	RankAndSize = client.RankAndSize
	Program     = client.Program
)

// NewClient returns a client that has sent nothing yet.
var NewClient = client.New
