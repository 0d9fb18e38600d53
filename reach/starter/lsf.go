package starter

import (
	"slices"
	"strings"
	"time"
)

// lsf starts a task of its job on each host but this one (from LSF's manuals; never tried live):
//
//	mpiexec --- blaunch ...... sbatchd, res --- /bin/sh --- keeper --- helper --- ranks
//	         '- helper --- ranks                here: below the res of the script
//
// blaunch carries the streams, and passes signals and the exit status on.
var lsf = Starter{
	System: "lsf", Program: "blaunch", Name: "LSF", Within: "call mpiexec in a script of bsub -n", Untried: true,
	Argv:   blaunch,
	Fanout: 16, Patience: 30 * time.Second,
	Grace: 700 * time.Millisecond, Asked: true,
	Remedy: "does blaunch HOST true work here? or use -launcher ssh",
	Line:   func(stderr string) string { return lastOf(stderr, nil, []string{"blaunch: "}) },
	State:  lsfState,
}

// blaunch needs to be told the host alone (RM-30).
func blaunch(c Call) []string {
	return slices.Concat([]string{c.Program}, c.More, []string{c.Host, Shell})
}

// lsfState reads the one word that is asked for.
func lsfState(run func(name string, args ...string) (string, error), job string) State {
	text, err := run("bjobs", "-noheader", "-o", "stat", job)
	switch state := strings.TrimSpace(text); {
	case err != nil:
	case state == "RUN":
		return Runs
	case slices.Contains([]string{"USUSP", "SSUSP", "PSUSP"}, state):
		return Suspended
	case slices.Contains([]string{"EXIT", "DONE", "ZOMBI"}, state):
		return Over
	}
	return Unknown
}
