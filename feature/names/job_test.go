//go:build linux

package names

import (
	"io"
	"strings"
	"testing"

	"remshell/job"
	"remshell/launch/launchtest"
	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

func TestMain(m *testing.M) { launchtest.Main(m) }

// A rank finds a name that a rank on another node has published.
func TestAPublishedNameIsFound(t *testing.T) {
	launchtest.RecordJobs(t, "NameRequest NameReply", func(s launchtest.Recording) {
		r := launchtest.NewPMIRun(2, "0: publish svc p; barrier; 1: lookup svc", nil, "a", "b")
		s.MustExit(r, 0)
		if !strings.Contains(r.Out.String(), "lookup svc: p\n") {
			t.Errorf("stdout %q", r.Out.String())
		}
	})
}

// A rank that waits for a name finds it when a rank on another node publishes it.
func TestANameThatARankWaitsFor(t *testing.T) {
	launchtest.RecordJobs(t, "NamePublished", func(s launchtest.Recording) {
		r := launchtest.NewRun(1, "", "a", "b")
		r.Req.Apps = []job.App{{N: 1, Argv: []string{"/proc/self/exe"}, Dir: "/", PMIOffer: job.PMIOfferPMIx}, {N: 1, Argv: []string{"/proc/self/exe",
			launchtest.EncodeRequest(&message.Lookup{Keys: []string{"svc"}, Options: message.Options{{Key: "pmix.wait", Value: bfrops.FlagOf(true)}}})}, Dir: "/", PMIOffer: job.PMIOfferPMIx}}
		r.Req.BaseEnv.Set = []string{launchtest.PMIxMark + "=1"}
		input, publisher := io.Pipe()
		r.In = input
		waiting := s.Recorder.Log.Shows("b < NameRequest\n")
		go func() {
			<-waiting
			io.WriteString(publisher, launchtest.EncodeRequest(&message.Publish{Infos: message.Options{{Key: "svc", Value: bfrops.TextOf("port")}}}))
			publisher.Close()
		}()
		s.MustExit(r, 0)
	})
}

// Names are published for the whole job, and found on all nodes.
func TestNames(t *testing.T) {
	launchtest.NewPMIRun(2, "0: lookup svc; 0: publish svc tag#0$port#4 =; barrier; 1: lookup svc; 1: publish svc q; barrier; "+
		"1: unpublish svc; barrier; 0: lookup svc; 0: unpublish svc", nil, "a", "b").ExpectLines(t,
		"lookup svc failed: service_not_found",
		"publish svc",
		"lookup svc: tag#0$port#4 =",
		"publish svc failed: key_already_present",
		"unpublish svc",
		"lookup svc failed: service_not_found",
		"unpublish svc failed: service_not_found")
}
