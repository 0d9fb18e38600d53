package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"remshell/cli/option"
	"remshell/cli/request"
	"remshell/fault"
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
		return showPlan(line, sys, request.Offline(req, warnings, func() (job.Probe, error) { return probeHere(sys) }), way)
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

// planFile answers --plan or --dry-run with --cluster-state FILE (placement.md 9).
// Nobody is reached. The code is 0 if ranks were placed.
func planFile(line option.Line, sys System, failure int) int {
	code, err := showPlan(line, sys, world(sys).FromState(line), nil)
	if err != nil {
		report(sys.Err, err)
		return failure
	}
	return code
}

// planUsage refuses what the options that only tell cannot do.
func planUsage(line option.Line) error {
	j := line.Job
	file, several, first := j.ClusterState != "", len(line.Sections) > 1, line.Sections[0]
	switch {
	case file && !j.Plan && !j.DryRun:
		return &fault.Error{Text: "--cluster-state has a meaning only with --plan or --dry-run", Remedy: "add one of them, or leave it out"}
	case file && j.NoLocal:
		return &fault.Error{Text: "-nolocal has no meaning with --cluster-state, which does not tell where mpiexec runs", Remedy: "leave it out"}
	case file && (j.Exclude != nil || j.Simulate > 0 || j.RMK != "" || first.Soft.Members != nil || first.Arch != ""):
		return &fault.Error{Text: "-exclude, -rmk, -soft, -arch and --simulate-nodes have no meaning with --cluster-state", Remedy: "leave them out, and name nodes with --nodes"}
	case file && several, j.SaveState != "" && several:
		return &fault.Error{Text: "a cluster state covers a single executable", Remedy: "take each section on its own"}
	case j.SaveState != "" && j.DryRun && !j.Probe:
		return &fault.Error{Text: "--save-cluster-state needs a look at the hosts", Remedy: "add --probe"}
	case j.JSON != "" && j.Plan && !j.DryRun:
		return &fault.Error{Text: "--json has no meaning with --plan, which writes JSON as it is", Remedy: "leave it out"}
	case j.JSONOutput && (j.JSON == "" || !starts(j)):
		return &fault.Error{Text: "--json-output has a meaning only with --json and a run", Remedy: "add --json, or leave it out"}
	case j.Doctor && (j.Plan || j.DryRun || asksOfJobs(j)):
		return &fault.Error{Text: "--doctor is a question of its own", Remedy: "ask one at a time"}
	case j.Probe && !j.DryRun:
		return &fault.Error{Text: "--probe has a meaning only with --dry-run", Remedy: "leave it out"}
	}
	return nil
}
