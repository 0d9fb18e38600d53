//go:build linux

package main

import (
	"runtime"
	"slices"
	"strconv"
	"time"
)

// waitingCases are MPI programs whose ranks wait for each other all the time, with two ranks for each CPU
// or one, alone or beside a busy loop on each CPU: each library under its own launcher and under ours. How
// ranks wait decides here: Open MPI's yield, MPICH's spin. The goal is 1.3 of the wall time of the rival.
func waitingCases() []testCase {
	cpus := runtime.NumCPU()
	var list []testCase
	for _, family := range []struct {
		rival   rival
		library string
		program string
		options []string // of the rival
		steps   int      // where ranks share CPUs: each takes as long as the library's way to wait makes it
	}{
		{mpirun, "Open MPI", "build/programs/reduce.openmpi", mpirunOptions, 20_000},
		{hydra, "MPICH", "build/programs/reduce.mpich4", nil, 200},
	} {
		for _, shape := range []struct {
			name         string
			ranks, steps int
			busy         bool
		}{
			{"overbooked", 2 * cpus, family.steps, false},
			{"overbooked", 2 * cpus, family.steps / 4, true},
			{"a CPU each", cpus, 20_000, true},
		} {
			n := strconv.Itoa(shape.ranks)
			words := []string{"-n", n, family.program, strconv.Itoa(shape.steps)}
			c := testCase{name: family.library + " allreduce, " + shape.name + ", " + n + " ranks", rival: family.rival, rounds: rounds{5, 10, 20 * time.Second},
				ours:   append([]string{"-host", "localhost:" + n}, words...),
				theirs: slices.Concat(family.options, words)}
			if shape.busy {
				c = besideLoops(c)
			}
			list = append(list, c)
		}
	}
	return list
}
