package stacks

import (
	"strings"
	"testing"

	"remshell/job"
	"remshell/launch/node/nodetest"
	"remshell/wire"
	"remshell/wire/wiretest"
)

// group returns a report with one group.
func group(change func(*job.StackGroup)) *StackGroups {
	g := job.StackGroup{Ranks: []int{nodetest.Own}, Threads: 1, State: job.StackRuns}
	change(&g)
	return &StackGroups{Report: job.StackReport{Groups: []job.StackGroup{g}}}
}

// The frames of the messages do not change.
func TestFrames(t *testing.T) {
	wiretest.CheckBytes(t, &GatherStacks{}, "660100")
	wiretest.CheckBytes(t, &GatherStacks{Watch: true}, "660102")
	wiretest.CheckBytes(t, &StackGroups{}, "6703000000")
}

// Each bound of a report is kept, and one more is refused.
func TestBounds(t *testing.T) {
	for _, test := range []struct {
		m    wire.Message
		want string
	}{
		{&StackGroups{Report: job.StackReport{Groups: make([]job.StackGroup, job.MaxStackGroups+1)}}, "groups"},
		{&StackGroups{Report: job.StackReport{Notes: make([]string, job.MaxStackNotes+1)}}, "notes"},
		{group(func(g *job.StackGroup) { g.Frames = make([]job.StackFrame, job.MaxStackFrames) }), ""},
		{group(func(g *job.StackGroup) { g.Frames = make([]job.StackFrame, job.MaxStackFrames+1) }), "frames"},
		{group(func(g *job.StackGroup) { g.Frames = []job.StackFrame{{Line: -1}} }), "line -1"},
		{group(func(g *job.StackGroup) { g.Threads = 0 }), "threads 0"},
		{group(func(g *job.StackGroup) { g.Frames = []job.StackFrame{{Function: strings.Repeat("x", 1000)}} }), ""},
	} {
		_, err, _ := wiretest.Receive(wire.Encode(test.m), wire.Launcher)
		if test.want == "" && err != nil || test.want != "" && !wiretest.IsInvalidValue(err, test.want) {
			t.Errorf("%.200v: %v, want %q", test.m, err, test.want)
		}
	}
}

// The row of TRUST-4: stacks come once for each request, and are of the node's own ranks.
func TestStages(t *testing.T) {
	nodetest.CheckStages(t, nodetest.StageVerdicts{Kind: "StackGroups", Request: &GatherStacks{},
		//       connected greeted asked prepared running ending over left
		Stages: "early     foreign ok    ok       ok      ok     ok   dropped", Again: "unasked", Foreign: "foreign"})
}

// A report names only ranks of the node, in order, in a known state.
func TestAdmitGroups(t *testing.T) {
	for want, change := range map[string]func(*job.StackGroup){
		"ok":            func(g *job.StackGroup) {},
		"foreign":       func(g *job.StackGroup) { g.Ranks = []int{nodetest.Foreign} },
		"ranks [":       func(g *job.StackGroup) { g.Ranks = []int{nodetest.Later, nodetest.Own} },
		`state "dozes"`: func(g *job.StackGroup) { g.State = "dozes" },
	} {
		v, _ := nodetest.NewStage(t, "running")
		v.NoteSent(&GatherStacks{})
		if got := nodetest.Judge(v, group(change)); !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Ranks that have moved are ranks of the node, too.
func TestAdmitMoved(t *testing.T) {
	for rank, want := range map[int]string{nodetest.Own: "ok", nodetest.Foreign: "foreign"} {
		v, _ := nodetest.NewStage(t, "running")
		v.NoteSent(&GatherStacks{})
		if got := nodetest.Judge(v, &StackGroups{Moved: []int{rank}}); got != want {
			t.Errorf("%d: %s, want %s", rank, got, want)
		}
	}
}

// A request names ranks of the job, or none.
func TestParseRanks(t *testing.T) {
	for args, want := range map[string]string{"": "", "ranks=0-1,3": "", "ranks=4": "of the job, which has ranks 0-3", "ranks=": "of the job", "ranks=x": "of the job", "nodes=1": "is not an argument", "ranks=1 ranks=2": "is not an argument"} {
		if _, err := parseRanks(strings.Fields(args), 4); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
