//go:build linux

package helper

import (
	"testing"

	"remshell/helper/pmidetect"
	"remshell/job"
	"remshell/wire"
)

// A program that cannot communicate with its parent is not started (PMIX-43).
func TestSpawnOfAnotherMPIIsRefused(t *testing.T) {
	for _, test := range []struct {
		group wire.Group
		built job.PMIOffer
		want  bool
	}{
		{wire.Group{}, job.PMIOfferPMI1, false},
		{wire.Group{}, job.PMIOfferPMIx, false},
		{wire.Group{Parent: "k", PMIx: true}, job.PMIOfferPMI1, true},
		{wire.Group{Parent: "k", PMIx: true}, job.PMIOfferPMIx, false},
		{wire.Group{Parent: "k", PMIx: true}, job.PMIOfferBoth, false},
		{wire.Group{Parent: "k"}, job.PMIOfferPMIx, true},
		{wire.Group{Parent: "k"}, job.PMIOfferPMI1, false},
		{wire.Group{Parent: "k"}, job.PMIOfferBoth, false},
	} {
		r := &Rank{}
		r.command.Argv = []string{"./b"}
		refused := checkSpawnedLibrary(&Group{Prepare: &wire.Prepare{Group: test.group}}, r, pmidetect.Verdict{Offer: test.built, Family: "MPICH"})
		if (refused != nil) != test.want {
			t.Errorf("%+v, built for %s: %v", test.group, test.built, refused)
		}
	}
}
