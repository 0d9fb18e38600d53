package setup

import (
	"context"

	"remshell/cli/option"
	"remshell/job"
	"remshell/launch/reserve"
)

// A HostQuery is the implementation of an mpijob subcommand that queries hosts and does not concern a job.
type HostQuery struct {
	// NeedsHosts: hosts must be on the line. Hosts of variables, of the cluster file and of a batch system do not count.
	NeedsHosts bool
	// Answer asks the hosts of req, and reports what they reply. The returned error joins one error for each host that
	// has not done what was requested.
	Answer func(ctx context.Context, line option.Line, req job.Request, env reserve.Env) error
}

var hostQueries = make(map[string]HostQuery)

// RegisterHostQuery registers q as the implementation of an mpijob subcommand and of the equivalent option of mpiexec.
// RegisterHostQuery must be called during program initialization.
func RegisterHostQuery(command string, q HostQuery) { hostQueries[command] = q }

// HostQueryOf returns the query of an mpijob subcommand. found is false if no feature has registered one.
func HostQueryOf(command string) (q HostQuery, found bool) {
	q, found = hostQueries[command]
	return q, found
}
