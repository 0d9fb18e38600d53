//go:build linux

package helptexts

import (
	"slices"
	"strings"
	"testing"

	"remshell/job"
	"remshell/launch/launchtest"
	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

func TestMain(m *testing.M) { launchtest.Main(m) }

// If the libraries of two ranks print the same text, it is printed once, and the other is counted.
func TestRanksWithTheSameText(t *testing.T) {
	launchtest.RecordJobs(t, "ShowHelp ShowHelpReply", func(s launchtest.Recording) {
		r := launchtest.NewRun(1, "", "a", "b")
		says := launchtest.EncodeRequest(&message.Log{Data: message.Options{{Key: "pmix.log.stderr", Value: bfrops.TextOf("it is broken\n")}},
			Directives: message.Options{{Key: "pmix.log.key", Value: bfrops.TextOf("help.txt")}, {Key: "pmix.log.val", Value: bfrops.TextOf("broken")}}})
		r.Req.Apps = slices.Repeat([]job.App{{N: 1, Argv: []string{"/proc/self/exe", says}, Dir: "/", PMIOffer: job.PMIOfferPMIx}}, 2)
		r.Req.BaseEnv.Set = []string{launchtest.PMIxMark + "=1"}
		s.MustExit(r, 0)
		if said := r.Err.String(); strings.Count(said, "it is broken\n") != 1 || !strings.Contains(said, "(broken: 1 more rank printed the same text)") {
			s.Errorf("stderr %q", said)
		}
	})
}
