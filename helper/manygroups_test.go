//go:build linux

package helper

import (
	"fmt"
	"runtime"
	"testing"

	"remshell/job"
	"remshell/wire"
)

// liveHeap returns the live heap of this process, helper and test, in bytes.
func liveHeap() int64 {
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	return int64(memory.HeapAlloc + memory.StackInuse)
}

// runRankGroup runs one group with one short rank to its end.
func (k *testHelper) runRankGroup(ledger string, rank int) {
	k.t.Helper()
	name := fmt.Sprint("test.", rank)
	k.conn.Send(&wire.Prepare{Job: "test", Group: wire.Group{Name: name, First: rank, Size: 1, NodeCount: 1}, Node: wire.GroupNode{Name: "here"},
		Process: wire.Process{Umask: -1}, Claim: wire.Claim{Ledger: ledger, MaxProcs: -1},
		Apps: []job.App{{Argv: []string{"/bin/true"}, Dir: "/"}}, Ranks: []job.RankPlan{{}}})
	receive[*wire.Prepared](k)
	k.conn.Send(&wire.Start{Group: name})
	if exit := receive[*wire.Exited](k).Exit; exit.Rank != rank || exit.Code != 0 {
		k.t.Fatalf("rank %d: %+v", rank, exit)
	}
}

// A job may spawn for days. An ended group leaves only the process group IDs of its ranks, and what features keep, such as final states.
func TestManyGroupsUseNoMemory(t *testing.T) {
	const groups, step = 600, 200
	const most = 1 << 10 // bytes of each
	k, ledger := newTestHelper(t), t.TempDir()
	k.start("exec sleep 1000")
	var live []int64
	for rank := 1; rank <= groups; rank++ {
		k.runRankGroup(ledger, rank)
		if rank%step == 0 {
			live = append(live, liveHeap())
		}
	}
	if each := (live[len(live)-1] - live[0]) / (groups - step); each > most {
		t.Errorf("%d bytes stay of each group; the heap after each third: %d", each, live)
	}
	k.bye()
}

// A rank may write for days. Output is not kept once it is sent.
func TestMuchOutputUsesNoMemory(t *testing.T) {
	const total, step = 64 << 20, 16 << 20 // bytes
	const most = 4 << 20                   // bytes that the heap may grow by: more than a window, and less than a tenth
	k := newTestHelper(t)
	k.start(fmt.Sprintf("yes | head -c %d", total))
	var live []int64
	for taken := 0; taken < total; {
		d := receive[*wire.Data](k)
		before := taken
		taken += len(d.Bytes)
		k.conn.Send(&wire.Credit{Rank: 0, Stream: wire.Stdout, Bytes: len(d.Bytes)})
		k.out[0] = "" // the test does not keep output either
		d.Release()
		if taken/step > before/step {
			live = append(live, liveHeap())
		}
	}
	if exit := receive[*wire.Exited](k).Exit; exit.Code != 0 {
		t.Errorf("exit %+v", exit)
	}
	if grown := live[len(live)-1] - live[0]; grown > most {
		t.Errorf("the heap has grown by %d bytes; after each quarter: %d", grown, live)
	}
	k.bye()
}
