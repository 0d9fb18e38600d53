package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"remshell/cli/option"
	"remshell/job"
	"remshell/launch"
	"remshell/psi"
	"remshell/whatif"
)

// A notPlaced is a plan that was asked for and cannot be. All there is to say of it has
// been said on standard output.
type notPlaced struct{ error }

// look plans for the hosts as they are now, and starts nothing.
func look(ctx context.Context, line option.Line, sys System, req job.Request, warnings []job.Note, env launch.Env) (int, error) {
	way := wayOf(env.Dialer)
	if line.Job.DryRun && !line.Job.Probe && !line.Job.Plan {
		return showPlan(line, sys, guess(req, lookHere(sys, req), warnings), way)
	}
	snap, err := launch.Look(ctx, req, env)
	if err != nil && !(req.Skip && errors.As(err, new(*launch.HostsError))) {
		return 0, err
	}
	// That none of many nodes is up is a plan's own answer: no-candidates, with reasons.
	code, err := showPlan(line, sys, whatif.Decide(req, snap, warnings), way)
	if err == nil {
		flush(env.Err)
	}
	return code, err
}

// wayOf tells how a dialer would reach a node, as far as it tells.
func wayOf(d launch.Dialer) func(job.NodeDef) string {
	if d, ok := d.(interface{ way(job.NodeDef) string }); ok {
		return d.way
	}
	return func(job.NodeDef) string { return "" }
}

// planError reports whether an error is one that a plan can tell.
func planError(err error) bool { return errors.As(err, new(*psi.Error)) }

// save writes what the hosts are like into a file.
func save(name string, req job.Request, snap job.Snapshot, say func(string)) {
	if err := writeFile(name, func(w io.Writer) error { return whatif.Save(w, req, snap) }); err != nil {
		say(fmt.Sprintf("--save-cluster-state: %v", err))
	}
}
