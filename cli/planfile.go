package cli

import (
	"io"
	"slices"
	"strings"

	"remshell/psi"
	"remshell/state"
)

// planFile answers --plan or --dry-run with --cluster-state FILE (placement.md 9).
// Nobody is reached. The code is 0 if ranks were placed.
func planFile(line Line, sys System, failure int) int {
	code, err := showPlan(line, sys, planned(line, sys))
	if err != nil {
		report(sys.Err, err)
		return failure
	}
	return code
}

// planUsage refuses what the options that only tell cannot do.
func planUsage(line Line) error {
	j := line.Job
	file, several := j.ClusterState != "", len(line.Sections) > 1
	switch {
	case file && !j.Plan && !j.DryRun:
		return &UsageError{"--cluster-state has a meaning only with --plan or --dry-run", "add one of them, or leave it out"}
	case file && several, j.SaveState != "" && several:
		return &UsageError{"a cluster state covers a single executable", "take each section on its own"}
	case file && (len(line.Sections[0].Host) > 0 || line.Sections[0].HostFile != ""):
		return &UsageError{"-host and -hostfile are not available with --cluster-state yet", "use --nodes, or PSI_HOSTS"}
	case j.DryRun && !file && !j.Probe:
		return &UsageError{"--dry-run without a look at the hosts is not available yet", "add --probe, or --cluster-state FILE"}
	case j.Probe && !j.DryRun:
		return &UsageError{"--probe has a meaning only with --dry-run", "leave it out"}
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
