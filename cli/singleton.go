package cli

import "slices"

// singletonPort finds the port in the words by which an MPI program that was started by
// itself calls mpiexec: [-v] -pmi_args PORT INTERFACE KEY PID (pmi-wire.md 1.4).
func singletonPort(args []string) (port string, called bool) {
	i := slices.Index(args[:min(len(args), 2)], "-pmi_args")
	if i < 0 || len(args) != i+5 {
		return "", false
	}
	return args[i+1], true
}
