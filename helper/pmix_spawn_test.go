//go:build linux

package helper

import (
	"testing"

	"remshell/helper/offer"
	"remshell/job"
	"remshell/wire"
)

// Who cannot speak to his parent is not started (PMIX-43).
func TestStrangersAreNotSpawned(t *testing.T) {
	for _, test := range []struct {
		group wire.Group
		built job.Offer
		want  bool
	}{
		{wire.Group{}, job.OfferPMI1, false},
		{wire.Group{}, job.OfferPMIx, false},
		{wire.Group{Parent: "k", PMIx: true}, job.OfferPMI1, true},
		{wire.Group{Parent: "k", PMIx: true}, job.OfferPMIx, false},
		{wire.Group{Parent: "k", PMIx: true}, job.OfferBoth, false},
		{wire.Group{Parent: "k"}, job.OfferPMIx, true},
		{wire.Group{Parent: "k"}, job.OfferPMI1, false},
		{wire.Group{Parent: "k"}, job.OfferBoth, false},
	} {
		r := &process{}
		r.command.Argv = []string{"./b"}
		refused := stranger(&group{prepare: &wire.Prepare{Group: test.group}}, r, offer.Verdict{Offer: test.built, Family: "MPICH"})
		if (refused != nil) != test.want {
			t.Errorf("%+v, built for %s: %v", test.group, test.built, refused)
		}
	}
}
