//go:build linux

package main

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// openHello is hello, built with this machine's Open MPI.
const openHello = "build/programs/hello.openmpi"

// mpirunOptions let Open MPI's launcher do what ours and Hydra do unasked: run for root, and
// run more ranks than there are CPUs. Hosts of a field share their CPUs, which no launcher can
// know; so ranks that wait let others run, under both.
var mpirunOptions = []string{"--allow-run-as-root", "--oversubscribe"}

// yielding is how each launcher is told so. On one host each binds ranks as it does unasked.
var (
	oursYields   = []string{"-genv", "OMPI_MCA_mpi_yield_when_idle", "1"}
	mpirunYields = append(slices.Clone(mpirunOptions), "-x", "OMPI_MCA_mpi_yield_when_idle=1")
)

// openMPICases start programs of Open MPI, in turns with its own launcher. all are the hosts.
func openMPICases(all []string) []testCase {
	eight := strings.Join(all[:8], ",")
	list := []testCase{{name: "Open MPI hello, 8 hosts", onHead: true, rival: mpirun, rounds: rounds{5, 5, 0},
		ours:   slices.Concat(oursYields, []string{"--no-pin", "-hosts", eight, "-n", "8", openHello}),
		theirs: slices.Concat(mpirunYields, []string{"-host", eight, "-n", "8", openHello})}}
	for _, n := range []int{2, 4, 16, 64, 256} {
		count := strconv.Itoa(n)
		c := testCase{name: "Open MPI hello, local, " + count + " ranks", rival: mpirun, rounds: rounds{5, 5, 0},
			ours:   slices.Concat(oursYields, []string{"-hosts", "localhost:" + count, "-n", count, openHello}),
			theirs: slices.Concat(mpirunYields, []string{"-n", count, openHello})}
		if n == 256 {
			c.rounds = rounds{1, 3, time.Minute}
		}
		list = append(list, c)
	}
	return list
}
