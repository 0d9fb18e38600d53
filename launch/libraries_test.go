package launch

import (
	"testing"

	"remshell/launch/supervise"
)

// The error names the ranks of two MPI libraries and their protocols, and says how to start them
// separately (PMIX-4).
func TestTwoLibraries(t *testing.T) {
	on := func(who, host string, app int, program string) waitingRank {
		return waitingRank{who, host, app, program}
	}
	for _, test := range []struct {
		name       string
		pmi, pmix  waitingRank
		apps       int
		text, hint string
	}{
		{"two app contexts", on("rank 0 on n1", "n1", 0, "./a"), on("rank 1 on n2", "n2", 1, "./b"), 2,
			"rank 0 on n1 (app context 1: ./a) uses PMI, as MPICH does, and rank 1 on n2 (app context 2: ./b) uses PMIx, as Open MPI does: they cannot be in one MPI_COMM_WORLD",
			"start two jobs, one for ./a and one for ./b, or build both with the same MPI library"},
		{"two hosts", on("rank 1 on n2", "n2", 0, "./a"), on("rank 0 on n1", "n1", 0, "./a"), 1,
			"rank 1 on n2 (./a) uses PMI, as MPICH does, and rank 0 on n1 (./a) uses PMIx, as Open MPI does: they cannot be in one MPI_COMM_WORLD",
			"all hosts need the same MPI library: the library on n2 uses PMI, but the library on n1 uses PMIx"},
		{"one script on one host", on("rank 1 on n1", "n1", 1, "./run"), on("rank 2 on n1", "n1", 1, "./run"), 3,
			"rank 1 on n1 (app context 2: ./run) uses PMI, as MPICH does, and rank 2 on n1 (app context 2: ./run) uses PMIx, as Open MPI does: they cannot be in one MPI_COMM_WORLD",
			"use the same MPI library to build ./run and all programs that it starts"},
	} {
		got := twoLibraries(test.pmi, test.pmix, test.apps)
		if got.Kind != supervise.PMIBarrierBroken || got.Text != test.text || got.Hint != test.hint {
			t.Errorf("%s: %+v", test.name, got)
		}
	}
}
