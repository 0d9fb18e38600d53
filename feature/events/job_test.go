//go:build linux

package events

import (
	"testing"

	"remshell/job"
	"remshell/launch/launchtest"
	"remshell/pmiserver/pmix/message"
)

func TestMain(m *testing.M) { launchtest.Main(m) }

// A rank is told when its event was forwarded to other nodes.
func TestARankTellsOthersOfAnEvent(t *testing.T) {
	launchtest.RecordJobs(t, "Notify Notified", func(s launchtest.Recording) {
		r := launchtest.NewRun(1, "", "a", "b")
		tells := launchtest.EncodeRequest(&message.Notify{Event: -3001, Range: message.InJob})
		r.Req.Apps = []job.App{{N: 1, Argv: []string{"/proc/self/exe", tells}, Dir: "/", PMIOffer: job.PMIOfferPMIx},
			{N: 1, Argv: []string{"/proc/self/exe", ""}, Dir: "/", PMIOffer: job.PMIOfferPMIx}}
		r.Req.BaseEnv.Set = []string{launchtest.PMIxMark + "=1"}
		s.MustExit(r, 0)
		if r.Out.String() != "status 0\n" {
			s.Errorf("it is answered by %q", r.Out.String())
		}
	})
}
