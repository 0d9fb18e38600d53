//go:build linux

package transcript_test

import (
	"bytes"
	"strings"
	"testing"

	_ "remshell/feature" // ranks spawn others
	own "remshell/feature/transcript"
	"remshell/job"
	"remshell/launch/launchtest"
	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
	"remshell/pmiserver/transcript"
	"remshell/test/pmixtest"
	"remshell/wire"
)

func TestMain(m *testing.M) { launchtest.Main(m) }

// A transcript is a case that tests can read (--pmi-trace).
func TestTranscriptIsACase(t *testing.T) {
	r := launchtest.NewPMIRun(2, "0: put k v; barrier; 1: get k; 0: spawn 1 child; 1: spawn 1 x program=/no", map[string]string{"child": "get parent"}, "a:2", "b:2")
	r.Req.Apps[0].PerNode = 1
	var text bytes.Buffer
	r.Settings = []wire.Setting{&own.Request{File: &text}}
	if result, err := r.Do(t); err != nil || result.Code != 0 {
		t.Fatalf("code %d, %v: %s", result.Code, err, r.Err.String())
	}
	cases, err := transcript.ReadCases("trace", bytes.NewReader(text.Bytes()))
	if err != nil || len(cases) != 1 || len(cases[0].Steps) < 40 {
		t.Fatalf("%v, %d cases:\n%s", err, len(cases), text.String())
	}
	for _, want := range []string{"nodes=ab", "1> cmd=get_result rc=0 value=v\n", "0< STARTED\n0> cmd=spawn_result rc=0\n",
		"1< FAILED ", "1:0> cmd=get_result rc=0 value=test\n", "1:0< EOF\n1:0> CLOSED\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

// A transcript has the requests by PMIx, also those of spawned ranks.
func TestTranscriptOfPMIx(t *testing.T) {
	spawned := strings.TrimSuffix(pmixtest.Namespace, "0") + "1"
	child := bfrops.Program{Command: "/proc/self/exe", Ranks: 1, Args: []string{"/proc/self/exe",
		launchtest.EncodeRequest(&message.Get{Namespace: spawned, Rank: 0, Key: "card", Options: message.Options{{Key: "pmix.immediate", Value: bfrops.FlagOf(true)}}})}}
	r := launchtest.NewRun(1, "", "a:2")
	r.Req.Apps = []job.App{{N: 1, Argv: []string{"/proc/self/exe", launchtest.EncodeRequest(&message.Spawn{Programs: []bfrops.Program{child}})}, Dir: "/", PMIOffer: job.PMIOfferPMIx}}
	r.Req.BaseEnv.Set = []string{launchtest.PMIxMark + "=1"}
	var text bytes.Buffer
	r.Settings = []wire.Setting{&own.Request{File: &text}}
	if result, err := r.Do(t); err != nil || result.Code != 0 {
		t.Fatalf("code %d, %v: %s", result.Code, err, r.Err.String())
	}
	for _, want := range []string{"\n0< SPAWN ", "\n1:0< GET rs-..@1:0 card immediate\n1:0> GET not found\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}
