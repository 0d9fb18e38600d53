package cli

import (
	"testing"

	"remshell/job"
)

func TestOnlyRanksThatMaySpeakPMIxNeedASessionInCommon(t *testing.T) {
	for _, row := range []struct {
		name  string
		apps  []job.App
		slots int
		want  bool
	}{
		{"a CPU for each rank", []job.App{{N: 2}}, 0, false},
		{"more ranks than CPUs", []job.App{{N: 3}}, 0, true},
		{"two contexts together", []job.App{{N: 1}, {N: 2}}, 0, true},
		{"as many as the host has slots", []job.App{{}}, 3, true},
		{"as the program is linked", []job.App{{N: 3, PMI: job.OfferAuto}}, 0, true},
		{"--pmi pmi1", []job.App{{N: 3, PMI: job.OfferPMI1}}, 0, false},
		{"--pmi pmi2", []job.App{{N: 3, PMI: job.OfferPMI2}}, 0, false},
		{"--pmi none", []job.App{{N: 3, PMI: job.OfferNone}}, 0, false},
		{"--pmi both for one context", []job.App{{N: 2, PMI: job.OfferPMI1}, {N: 1, PMI: job.OfferBoth}}, 0, true},
	} {
		req := job.Request{Apps: row.apps, Nodes: []job.NodeDef{{Slots: row.slots}}}
		if got := overbooks(req, 2); got != row.want {
			t.Errorf("%s: overbooks is %v, want %v", row.name, got, row.want)
		}
	}
}
