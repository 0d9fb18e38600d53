package drain

import (
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/launch/node/nodetest"
	"remshell/wire"
	"remshell/wire/wiretest"
)

// The frames of the messages do not change.
func TestFrames(t *testing.T) {
	wiretest.CheckBytes(t, &Change{Drain: true, Reason: "r", Setting: Setting{Users: "u", Groups: "g", MaxProcs: "1"}}, "680b0202720002750267"+"023100")
	wiretest.CheckBytes(t, &Changed{NotRoot: true, Err: "e"}, "690b020265"+"0000000001000000")
}

// The row of TRUST-4: a reply comes once for each request.
func TestStages(t *testing.T) {
	nodetest.CheckStages(t, nodetest.StageVerdicts{Kind: "Changed", Request: &Change{},
		//       connected greeted asked prepared running ending over left
		Stages: "early     ok      ok    ok       ok      ok     ok   dropped", Again: "unasked"})
}

// Each limit of TRUST-7 is accepted, and one more is refused.
func TestBounds(t *testing.T) {
	names := func(n, size int) wire.Message {
		all := make([]string, n)
		for i := range all {
			all[i] = strings.Repeat("a", size)
		}
		return &Changed{Settings: job.NodeSettings{Allow: job.Allow{Users: all}}}
	}
	most := func(n int) wire.Message { return &Changed{Settings: job.NodeSettings{Allow: job.Allow{MaxProcs: &n}}} }
	slice := func(length time.Duration) wire.Message {
		return &Changed{Settings: job.NodeSettings{Slice: job.SliceSetting{Length: length}}}
	}
	for _, test := range []struct {
		m    wire.Message
		want string // part of the violation; empty: it is valid
	}{
		{names(job.MaxMembers, job.MaxMemberName), ""}, {names(job.MaxMembers+1, 1), "65 names"},
		{slice(job.MaxSlice), ""}, {slice(job.MaxSlice + 1), "slice 3600000000001"}, {slice(-1), "slice -1"},
		{most(job.MaxAllowedMost), ""}, {most(job.MaxAllowedMost + 1), "maxproc 1000001"},
	} {
		_, err, _ := wiretest.Receive(wire.Encode(test.m), wire.Launcher)
		if test.want == "" && err != nil || test.want != "" && !wiretest.IsInvalidValue(err, test.want) {
			t.Errorf("%.200v: %v, want %q", test.m, err, test.want)
		}
	}
}
