//go:build linux

package fetches

import (
	"testing"

	"remshell/job"
	"remshell/launch/launchtest"
	"remshell/pmiserver/pmix/message"
	"remshell/test/pmixtest"
)

func TestMain(m *testing.M) { launchtest.Main(m) }

// A rank that wants data which a rank on another node never commits is told so.
func TestARankWantsWhatOneOfAnotherNodeHasNot(t *testing.T) {
	launchtest.RecordJobs(t, "Fetch Fetched", func(s launchtest.Recording) {
		r := launchtest.NewRun(1, "", "a", "b")
		wants := launchtest.EncodeRequest(&message.Get{Namespace: pmixtest.Namespace, Rank: 1, Key: "card"})
		r.Req.Apps = []job.App{{N: 1, Argv: []string{"/proc/self/exe", wants}, Dir: "/", PMIOffer: job.PMIOfferPMIx},
			{N: 1, Argv: []string{"/proc/self/exe", ""}, Dir: "/", PMIOffer: job.PMIOfferPMIx}}
		r.Req.BaseEnv.Set = []string{launchtest.PMIxMark + "=1"}
		s.MustExit(r, 0)
		if r.Out.String() != "status -46\n" {
			s.Errorf("it is answered by %q", r.Out.String())
		}
	})
}
