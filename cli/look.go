package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"remshell/job"
	"remshell/launch"
	"remshell/psi"
	"remshell/state"
)

// A notPlaced is a plan that was asked for and cannot be. All there is to say of it has
// been said on standard output.
type notPlaced struct{ error }

// look plans for the hosts as they are now, and starts nothing.
func look(ctx context.Context, line Line, sys System, req job.Request, warnings []job.Note, env launch.Env) (int, error) {
	snap, err := launch.Look(ctx, req, env)
	if err != nil {
		return 0, err
	}
	code, err := showPlan(line, sys, state.Decide(req, snap, warnings))
	if err == nil {
		flush(env.Err)
	}
	return code, err
}

// showPlan writes a plan in the form that was asked for: one JSON object on standard
// output, which also tells what is wrong, or a text.
func showPlan(line Line, sys System, o state.Outcome) (int, error) {
	var err error
	if line.Job.Plan {
		err = state.Write(sys.Out, o)
	} else {
		_, err = io.WriteString(sys.Out, planText(o))
	}
	if err == nil && !o.Placed() {
		err = notPlaced{o.Err}
	}
	return exitOK, err
}

// planError reports whether an error is one that a plan can tell.
func planError(err error) bool { return errors.As(err, new(*psi.Error)) }

// save writes what the hosts are like into a file.
func save(name string, req job.Request, snap job.Snapshot, say func(string)) {
	f, err := os.Create(name)
	if err == nil {
		err = state.Save(f, req, snap)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		say(fmt.Sprintf("--save-cluster-state: %v", err))
	}
}
