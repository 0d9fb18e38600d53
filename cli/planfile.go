package cli

import (
	"io"
	"slices"
	"strings"

	"remshell/psi"
	"remshell/state"
)

// planFile answers --plan --cluster-state FILE (placement.md 9): one JSON object on
// standard output, which also tells what is wrong. Nobody is reached. The code is 0
// if ranks were placed.
func planFile(line Line, sys System, failure int) int {
	if err := planUsage(line); err != nil {
		report(sys.Err, err)
		return failure
	}
	outcome := planned(line, sys)
	if err := state.Write(sys.Out, outcome); err != nil {
		report(sys.Err, err)
		return failure
	}
	if !outcome.Placed() {
		return failure
	}
	return exitOK
}

// planUsage refuses what a plan from a file cannot be.
func planUsage(line Line) error {
	switch {
	case line.Job.ClusterState == "":
		return &UsageError{"--plan for the live cluster is not available yet", "plan from a file: --plan --cluster-state FILE"}
	case !line.Job.Plan:
		return &UsageError{"--cluster-state has a meaning only with --plan", "add --plan, or leave it out"}
	case len(line.Sections) > 1:
		return &UsageError{"a plan from a file covers a single executable", "plan each section on its own"}
	case len(line.Sections[0].Host) > 0 || line.Sections[0].HostFile != "":
		return &UsageError{"-host and -hostfile are not available with --cluster-state yet", "use --nodes, or PSI_HOSTS"}
	}
	return nil
}

// planned reads the state and decides.
func planned(line Line, sys System) state.Outcome {
	text, err := reader(sys)(line.Job.ClusterState)
	if err != nil {
		return state.Unreadable(err)
	}
	s, err := state.Parse([]byte(text))
	if err != nil {
		return state.Unreadable(err)
	}
	env := func(name string) (string, bool) { return lookup(sys.Environ, name) }
	np, _ := line.Sections[0].Origin("n")
	in := s.Input(np.Value, flags(line.Job, line.Sections[0]), env, reader(sys))
	if in.NP == "" {
		return state.Unreadable(&psi.Error{Code: "bad-state", What: "np is missing; give -n N"})
	}
	return s.Decide(in)
}

// reader reads the user's files as a whole.
func reader(sys System) func(name string) (string, error) { return whole(opener(sys)) }

func whole(open func(string) (io.ReadCloser, error)) func(string) (string, error) {
	return func(name string) (string, error) {
		f, err := open(name)
		if err != nil {
			return "", err
		}
		defer f.Close()
		text, err := io.ReadAll(f)
		return string(text), err
	}
}

// lookup is the environment, where a variable may be defined and empty.
func lookup(environ []string, name string) (value string, defined bool) {
	for _, assignment := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(assignment, name+"="); ok {
			return value, true
		}
	}
	return "", false
}
