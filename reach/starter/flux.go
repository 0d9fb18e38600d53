package starter

import (
	"slices"
	"strconv"
	"time"
)

// flux has the broker of each host but this one start something (from Flux's manuals; never tried live):
//
//	mpiexec --- flux exec ...... flux-broker --- /bin/sh --- keeper --- helper --- ranks
//	         '- helper --- ranks                 here: below the broker or the shell of the script
//
// Brokers obey the owner of their instance only: it is for scripts of flux batch and shells of flux
// alloc, which have an instance of their own. What is started so ends with the instance.
var flux = Starter{
	System: "flux", Program: "flux", Name: "Flux", Within: "call mpiexec in a script of flux batch, or by flux alloc", Untried: true,
	Argv:   fluxExec,
	Fanout: 16, Patience: 30 * time.Second,
	Grace: 700 * time.Millisecond, Asked: true,
	Remedy: "does flux exec -r RANK true work here? or use -launcher ssh",
	Line:   func(stderr string) string { return lastOf(stderr, nil, []string{"flux-exec: ", "Error: "}) },
}

// fluxExec names a host by the rank of its broker (RM-30).
func fluxExec(c Call) []string {
	return slices.Concat([]string{c.Program, "exec", "-r", strconv.Itoa(c.Rank)}, c.More, []string{Shell})
}
