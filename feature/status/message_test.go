package status

import (
	"testing"
	"time"

	"remshell/job"
	"remshell/launch/node/nodetest"
	"remshell/wire"
	"remshell/wire/wiretest"
)

// The frames of the messages do not change.
func TestFrames(t *testing.T) {
	wiretest.CheckBytes(t, &InspectRanks{}, "3200")
	wiretest.CheckBytes(t, &RankStates{}, "330100")
	wiretest.CheckBytes(t, &RankStates{Ranks: []job.RankState{{Rank: 1, PID: 2, Phase: "é\n\x00a", PMI: job.PMIFinalized, Barrier: 1, WaitsFor: "w", CPU: 1, WaitChannel: "c", ProcState: "S"}}},
		"331202"+"0204"+"0ac3a90a0061"+"04"+"02"+"0277"+"02"+"0263"+"0253")
}

// Each limit of TRUST-7 is accepted, and one more is refused.
func TestBounds(t *testing.T) {
	one := func(s job.RankState) wire.Message { return &RankStates{Ranks: []job.RankState{s}} }
	for _, test := range []struct {
		m    wire.Message
		want string // part of the violation; empty: it is valid
	}{
		{&RankStates{Ranks: make([]job.RankState, wire.MaxOnNode)}, ""}, {&RankStates{Ranks: make([]job.RankState, wire.MaxOnNode+1)}, "65537 ranks"},
		{one(job.RankState{Rank: -1}), "rank -1"}, {one(job.RankState{PID: -1}), "pid -1"},
		{one(job.RankState{Barrier: 1 << 53}), ""}, {one(job.RankState{Barrier: 1<<53 + 1}), "barrier "}, {one(job.RankState{Barrier: -1}), "barrier -1"},
		{one(job.RankState{PMI: 100}), "state of PMI 100"}, {one(job.RankState{CPU: -time.Second}), "time "},
	} {
		_, err, _ := wiretest.Receive(wire.Encode(test.m), wire.Launcher)
		if test.want == "" && err != nil || test.want != "" && !wiretest.IsInvalidValue(err, test.want) {
			t.Errorf("%.200v: %v, want %q", test.m, err, test.want)
		}
	}
}

// The row of TRUST-4: states come once for each request, and are of the node's own ranks.
func TestStages(t *testing.T) {
	nodetest.CheckStages(t, nodetest.StageVerdicts{Kind: "RankStates", Request: &InspectRanks{},
		//       connected greeted asked prepared running ending over left
		Stages: "early     foreign ok    ok       ok      ok     ok   dropped", Again: "unasked", Foreign: "foreign"})
}

// report returns a report about these ranks.
func report(ranks ...int) *RankStates {
	m := new(RankStates)
	for _, rank := range ranks {
		m.Ranks = append(m.Ranks, job.RankState{Rank: rank})
	}
	return m
}

// A report names each rank once, and only ranks of the node.
func TestAdmitStates(t *testing.T) {
	for _, test := range []struct {
		m    *RankStates
		want string
	}{
		{report(), "ok"}, {report(nodetest.Later), "ok"}, {report(nodetest.Own, nodetest.Later), "ok"},
		{report(nodetest.Own, nodetest.Own), "rank 4 twice"}, {report(nodetest.Own, nodetest.Foreign), "foreign"}, {report(99), "foreign"},
	} {
		v, _ := nodetest.NewStage(t, "running")
		v.NoteSent(&InspectRanks{})
		if got := nodetest.Judge(v, test.m); got != test.want {
			t.Errorf("%v: %s, want %s", test.m, got, test.want)
		}
	}
}
