package supervise

import (
	"fmt"
	"slices"

	"remshell/job"
	"remshell/mpifault"
)

// This file creates notes about a job that has ended, which are printed in addition to the report of its cause.

// loaderFailed is the exit code of the dynamic loader of glibc and musl if a shared library is missing.
// Shells use the same exit code if they do not find a command. In both cases the MPI program has not started.
const loaderFailed = 127

// NotOurMPI returns a note if the program is an MPI program but no rank has connected to the PMI server of
// its helper (rules REP-5, PMIX-6). Otherwise it returns "". ranks is the number of ranks, and program is the
// program of rank 0.
func NotOurMPI(exits []*job.Exit, ranks int, program string) string {
	if ranks < 2 || len(exits) == 0 {
		return ""
	}
	var first *job.Exit // only the program of rank 0 was examined
	for _, e := range exits {
		if e.PMI != job.PMIUnused || e.Signal == 0 && e.Code == loaderFailed {
			return ""
		}
		if e.MPILibrary != "" {
			first = e
		}
	}
	if first == nil {
		return ""
	}
	try := "; try --pmi both"
	switch first.PMIOffer {
	case job.PMIOfferBoth:
		try = ""
	case job.PMIOfferNone:
		try = "; try --pmi auto"
	}
	return fmt.Sprintf("note: no rank connected to mpiexec by PMI, although %s uses %s; mpiexec offered %s%s", program, first.MPILibrary, first.PMIOffer.Description(), try)
}

// StuckInFinalize returns a note about ranks that hung in MPI_Finalize because of a known bug of their MPI library. If
// there are none, it returns "". It recognizes the barrier in MPI_Finalize by its number: MPICH uses two PMI barriers
// in MPI_Init, and a third if ranks share a node. nodes contains the node of each rank.
func StuckInFinalize(exits []*job.Exit, nodes []int) string {
	onNode := make(map[int]int) // number of ranks, by node
	for _, node := range nodes {
		onNode[node]++
	}
	inInit := 2
	if len(onNode) < len(nodes) {
		inInit = 3
	}
	var ranks []int
	var known mpifault.Fault
	for _, e := range exits {
		if f, found := mpifault.ByCode(e.LibraryFault); found && e.FinalizeBarrier > inInit && len(onNode) > 1 {
			known, ranks = f, append(ranks, e.Rank)
		}
	}
	if ranks == nil {
		return ""
	}
	slices.Sort(ranks)
	return fmt.Sprintf("note: %s waited in MPI_Finalize until mpiexec ended the job. %s; %s", FormatRanks(ranks), known.Text("The program"), known.Remedy)
}
