package cleanipc

import (
	"testing"

	"remshell/job"
	"remshell/launch/node/nodetest"
	"remshell/wire/wiretest"
)

// The frame of a report does not change.
func TestFrame(t *testing.T) {
	m := &IPCCleaned{Leftovers: []job.Leftover{{Kind: job.LeftoverSysVShm, ID: "32769", Bytes: 4096, Rank: 64, Err: "e"}}, Semaphores: 2}
	wiretest.CheckBytes(t, m, "6416020e7379737673686d0a333237363980408001026504")
}

// A report comes once, when ranks were started, and names the node's own ranks.
func TestStages(t *testing.T) {
	nodetest.CheckStages(t, nodetest.StageVerdicts{Kind: "IPCCleaned",
		//       connected greeted asked prepared running ending over left
		Stages: "early     early   early early    ok      ok     ok   dropped", Again: "twice", Foreign: "foreign"})
}

// A report may name the node's ranks, or none, and the three kinds.
func TestValues(t *testing.T) {
	for _, test := range []struct {
		leftover job.Leftover
		want     string
	}{
		{job.Leftover{Kind: job.LeftoverPosixShm, Rank: -1}, "ok"},
		{job.Leftover{Kind: job.LeftoverSysVShm, Rank: nodetest.Later}, "ok"},
		{job.Leftover{Kind: job.LeftoverSysVSem, Rank: -1}, "ok"},
		{job.Leftover{Kind: job.LeftoverSysVShm, Rank: 99}, "foreign"},
		{job.Leftover{Kind: "disk", Rank: -1}, `kind "disk"`},
	} {
		v, _ := nodetest.NewStage(t, "running")
		if got := nodetest.Judge(v, &IPCCleaned{Leftovers: []job.Leftover{test.leftover}}); got != test.want {
			t.Errorf("%+v: %s, want %s", test.leftover, got, test.want)
		}
	}
}
