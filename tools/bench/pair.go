//go:build linux

package main

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// pairScript starts the same job twice, at the same time. The job is an MPI program with one rank on each CPU, whose
// ranks wait for each other all the time. Each job prints how many calls of MPI_Allreduce it has made in the given
// number of seconds. The first arguments are the path of mpiexec, the number of CPUs, and the seconds. Options of
// mpiexec follow. The jobs use a ledger (directory of claims) of their own, so that other jobs on this machine have no
// effect.
const pairScript = `MPIEXEC_LEDGER=$(mktemp -d) && export MPIEXEC_LEDGER || exit
run="$1 -q -host localhost -n $2 --mem-per-rank 1M" seconds=$3
shift 3
$run "$@" build/programs/reduce.mpich4 "${seconds}s" &
$run "$@" build/programs/reduce.mpich4 "${seconds}s"
code=$?
wait $! && rm -rf "$MPIEXEC_LEDGER" && exit $code`

// pairCases returns cases of two jobs that need the same CPUs at the same time. Each case is compared with --wait,
// which makes one job run after the other. A job takes 60 s, or 30 s with --wait, so that two jobs always take about a
// minute.
func (b *bench) pairCases() []testCase {
	pair := func(seconds int, options ...string) []string {
		return append([]string{"/bin/sh", "-c", pairScript, "sh", b.ours, strconv.Itoa(runtime.NumCPU()), strconv.Itoa(seconds)}, options...)
	}
	var list []testCase
	for _, test := range []struct {
		options string
		seconds int // of each job
		goal    float64
	}{{"--gang", 60, 1 / 0.9}, {"--oversubscribe", 60, 0}, {"--exclusive --wait", 30, 0}} {
		list = append(list, testCase{name: "two MPICH jobs on the same CPUs, " + test.options + ", beside --wait, 1000 allreduces", figures: wallTimeGoal(test.goal), rounds: roundLimits{1, 1, 0},
			ours: pair(test.seconds, strings.Fields(test.options)...), theirs: pair(30, "--wait"), prints: allreduceTime})
	}
	return list
}

// allreduceTime returns how long 1000 calls of MPI_Allreduce took. It returns an error if the jobs of the
// sample have not printed how many calls they have made.
func allreduceTime(s sample) (time.Duration, error) {
	sum := 0
	for _, word := range strings.Fields(s.output) {
		n, err := strconv.Atoi(word)
		if err != nil || n <= 0 {
			return 0, fmt.Errorf("a job printed %q, not a number of allreduces", word)
		}
		sum += n
	}
	if sum == 0 {
		return 0, fmt.Errorf("the jobs printed no number of allreduces")
	}
	return time.Duration(1000 * float64(s.wall) / float64(sum)), nil
}
