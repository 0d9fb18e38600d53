//go:build linux

package launch_test

import (
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/launch/launchtest"
	"remshell/launch/reserve"
)

// A clock that is wrong is reported with its offset, corrected for the round trip. The helper of
// node "fast" has a clock of its own (TestMain), since no namespace has one.
func TestExamineTellsAClockThatIsOff(t *testing.T) {
	r := launchtest.NewRun(1, "true", "fast", "nowhere", "n1")
	r.Req.Apps[0].Argv = []string{"no-such-program"}
	r.Req.Queue.LedgerDir = t.TempDir()
	checkups, _, err := reserve.Diagnose(t.Context(), r.Req, r.Env().Env)
	if err != nil || len(checkups) != 3 {
		t.Fatalf("%d checkups, %v", len(checkups), err)
	}
	fast, nowhere, n1 := checkups[0], checkups[1], checkups[2]
	if off := fast.Skew - launchtest.FastClock; off > fast.SkewError+time.Second || -off > fast.SkewError+time.Second {
		t.Errorf("clock is %v ahead (±%v), want %v", fast.Skew, fast.SkewError, launchtest.FastClock)
	}
	if n1.Skew > n1.SkewError+time.Second || -n1.Skew > n1.SkewError+time.Second {
		t.Errorf("the clock of n1 is %v ahead (±%v), want none of it", n1.Skew, n1.SkewError)
	}
	if nowhere.Failure.Text != "no such host" || nowhere.Failure.Code != "unusable" || n1.Failure.Text != "" {
		t.Errorf("nowhere: %+v, n1: %+v", nowhere.Failure, n1.Failure)
	}
	if n1.Diagnosis.Program.Code != "program" || !strings.Contains(n1.Diagnosis.Program.Text, "no-such-program") {
		t.Errorf("program: %+v", n1.Diagnosis.Program)
	}
}

// Nodes of the cluster that the request does not list are not examined, though a plan may need them
// for the width of a gate.
func TestExamineLooksAtListedHostsOnly(t *testing.T) {
	for _, program := range []string{"", "true"} {
		r := launchtest.NewRun(1, "true", "n1", "n2", "n3")
		r.Req.Apps[0].Argv = []string{program}
		r.Req.Queue.LedgerDir, r.Req.HostEntries = t.TempDir(), []int{2}
		width := job.AutoWidth
		r.Req.Regions = []job.Region{{Name: "open", Nodes: []string{"n1", "n3"}}, {Name: "large", Nodes: []string{"n2"}, Gate: job.Gate{Width: &width}}}
		checkups, refused, err := reserve.Diagnose(t.Context(), r.Req, r.Env().Env)
		if err != nil || refused != nil || len(checkups) != 1 || checkups[0].Node != "n3" || checkups[0].Failure.Text != "" {
			t.Errorf("%q: %+v, %v, %v", program, checkups, refused, err)
		}
	}
}
