/*
Pmitalk is a parallel program without MPI that says to its PMI server what a script
tells it; see pmitest.RunScript.

	$ mpiexec -n 2 pmitalk '0: publish svc p; barrier; 1: lookup svc'
	publish svc
	lookup svc: p
*/
package main

import (
	"fmt"
	"os"

	"remshell/test/pmitest"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "pmitalk: which script?")
		os.Exit(64)
	}
	if err := pmitest.RunScript(pmitest.ScriptOf(os.Args[1], os.Getenv), os.Getenv, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "pmitalk: %v\n", err)
		os.Exit(1)
	}
}
