package cli

import (
	"strings"
	"testing"

	"remshell/job"
)

// Ranks of Open MPI that may share CPUs need a helper process, and so a session without a terminal. At a terminal that
// holds even if there are CPUs for all ranks.
func TestOnlyRanksThatMayShareCPUsNeedAHelperProcess(t *testing.T) {
	ppn := func(n int) job.App { return job.App{RankNeeds: job.RankNeeds{PerNode: n}} }
	for _, row := range []struct {
		name            string
		apps            []job.App
		slots           int
		change          func(*job.Request)
		piped, terminal bool
	}{
		{"a CPU for each rank, which others may have", []job.App{{N: 2}}, 0, nil, false, true},
		{"a CPU for each rank of MPICH", []job.App{{N: 2, Argv: []string{"mpich"}}}, 0, nil, false, false},
		{"a CPU for each rank, one of MPICH", []job.App{{N: 1, Argv: []string{"mpich"}}, {N: 1}}, 0, nil, false, true},
		{"more ranks than CPUs", []job.App{{N: 3}}, 0, nil, true, true},
		{"two contexts together", []job.App{{N: 1}, {N: 2}}, 0, nil, true, true},
		{"as many as the host has slots", []job.App{{}}, 3, nil, true, true},
		{"-ppn 3", []job.App{ppn(3)}, 0, nil, true, true},
		{"-ppn 1", []job.App{ppn(1)}, 0, nil, false, false},
		{"all CPUs", []job.App{{}}, 0, nil, false, true},
		{"a rank file", []job.App{{N: 2}}, 0, func(r *job.Request) { r.FixedPlacements = []job.FixedPlacement{{}, {}} }, false, true},
		{"one rank", []job.App{{N: 1}}, 0, nil, false, false},
		{"one rank of Open MPI", []job.App{{N: 1, Argv: []string{"openmpi"}}}, 0, nil, false, true},
		{"one that may not spawn", []job.App{{N: 1, Argv: []string{"openmpi"}}}, 0, func(r *job.Request) { r.SpawnHosts.None = true }, false, false},
		{"as the program is linked", []job.App{{N: 3, PMIOffer: job.PMIOfferAuto}}, 0, nil, true, true},
		{"--pmi pmi1", []job.App{{N: 3, PMIOffer: job.PMIOfferPMI1}}, 0, nil, false, false},
		{"--pmi pmi2", []job.App{{N: 3, PMIOffer: job.PMIOfferPMI2}}, 0, nil, false, false},
		{"--pmi none", []job.App{{N: 3, PMIOffer: job.PMIOfferNone}}, 0, nil, false, false},
		{"--pmi both for one context", []job.App{{N: 2, PMIOffer: job.PMIOfferPMI1}, {N: 1, PMIOffer: job.PMIOfferBoth}}, 0, nil, true, true},
	} {
		req := job.Request{Apps: row.apps, Nodes: []job.NodeDef{{Slots: row.slots}}}
		if row.change != nil {
			row.change(&req)
		}
		found := func(app job.App) job.PMIOffer {
			return map[string]job.PMIOffer{"openmpi": job.PMIOfferPMIx, "mpich": job.PMIOfferPMI1, "": job.PMIOfferBoth}[strings.Join(app.Argv, "")]
		}
		if piped, terminal := needsHelperProcess(req, 2, false, found), needsHelperProcess(req, 2, true, found); piped != row.piped || terminal != row.terminal {
			t.Errorf("%s: %v at a pipe and %v at a terminal, want %v and %v", row.name, piped, terminal, row.piped, row.terminal)
		}
	}
}
