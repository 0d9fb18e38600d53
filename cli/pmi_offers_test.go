package cli

import (
	"slices"
	"testing"

	"remshell/job"
	"remshell/simulate"
)

// --dry-run prints the PMI offer of each app context, with the nodes that have ranks of it (PMIX-6).
func TestDryRunPrintsPMIOffers(t *testing.T) {
	o := simulate.Outcome{
		Request: job.Request{Apps: []job.App{
			{Argv: []string{"/etc/passwd"}, Dir: "/"}, {Argv: []string{"b"}, PMIOffer: job.PMIOfferBoth}, {Argv: []string{"sh"}, Dir: "/", PMIOffer: job.PMIOfferAuto},
		}},
		Snapshot: job.Snapshot{Nodes: []job.Node{{NodeDef: job.NodeDef{Local: true}}, {}, {}}},
		Plan: job.Plan{Nodes: []job.NodePlan{
			{Node: 0, Name: "here", Ranks: []job.RankPlan{{App: 2}}},
			{Node: 1, Name: "n1", Ranks: []job.RankPlan{{App: 0}, {App: 1}}},
			{Node: 2, Name: "n2", Ranks: []job.RankPlan{{App: 0}}},
			{Node: -1, Name: "n3", Ranks: []job.RankPlan{{App: 1}}},
		}},
	}
	want := []string{"app context 1: the PMI version depends on the MPI library of the program on n[1-2]", "app context 2: both (--pmi)", "app context 3: both (the program is not linked with an MPI library)"}
	if got := pmiOffers(o, []string{"PATH=/bin"}); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
