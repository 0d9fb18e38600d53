//go:build linux

package helper

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
	"remshell/limit"
	"remshell/wire"
)

// What is told of a rank's memory is the rank's own, and not that of the helper that forks it.
func TestPeaksAreTheRanksOwn(t *testing.T) {
	large := make([]byte, 64<<20) // so are we
	for i := 0; i < len(large); i += 4096 {
		large[i] = 1
	}
	k := newTalk(t)
	k.prepareAs(func(m *wire.Prepare) { m.Streams.Stdin, m.Supervision.Peaks = nil, true }, "exec /bin/true", "exec sleep 0.1",
		"exec dd if=/dev/zero of=/dev/null bs=100M count=1 2>/dev/null")
	k.conn.Send(&wire.Start{})
	most := []int64{16 << 20, 16 << 20, 160 << 20}
	least := []int64{0, 100 << 10, 10 << 20} // the last, as far as it was seen: we have had more
	for range most {
		exit := hear[*wire.Exited](k).Exit
		if got := exit.Usage.MaxRSS; got > most[exit.Rank] || got < least[exit.Rank] {
			t.Errorf("rank %d: %d bytes, want %d to %d", exit.Rank, got, least[exit.Rank], most[exit.Rank])
		}
	}
	k.bye()
	runtime.KeepAlive(large)
}

// A rank has the launcher's limits from its first instruction on.
func TestARankIsBornWithItsLimits(t *testing.T) {
	const script = "ulimit -Sn; ulimit -Sf; ulimit -Sl; ulimit -St; ulimit -Sv; ulimit -Ss"
	const want = "321\n2048\n32\n7777\n1073741824\n4000\n" // shells count blocks of 512 bytes, and KiB
	var before [16]unix.Rlimit
	for i := range before {
		unix.Getrlimit(i, &before[i])
	}
	k := newTalk(t)
	k.prepareAs(func(m *wire.Prepare) {
		m.Streams.Stdin = nil
		m.Process.Soft = []job.SoftLimit{{Resource: unix.RLIMIT_NOFILE, Soft: 321}, {Resource: unix.RLIMIT_FSIZE, Soft: 1 << 20},
			{Resource: unix.RLIMIT_MEMLOCK, Soft: 32 << 10}, {Resource: unix.RLIMIT_CPU, Soft: 7777},
			{Resource: unix.RLIMIT_AS, Soft: 1 << 40}, {Resource: unix.RLIMIT_STACK, Soft: 4000 << 10}}
	}, slices.Repeat([]string{script}, 30)...)
	k.conn.Send(&wire.Start{})
	for range 30 {
		exit := hear[*wire.Exited](k).Exit
		if got := k.out[exit.Rank]; got != want {
			t.Errorf("rank %d: %q, want %q", exit.Rank, got, want)
		}
	}
	k.bye()
	unix.Setrlimit(unix.RLIMIT_STACK, &before[unix.RLIMIT_STACK])
	for i := range before {
		var after unix.Rlimit
		if unix.Getrlimit(i, &after); after != before[i] {
			t.Errorf("limit %d of our own was %v, and is %v", i, before[i], after)
		}
	}
}

// What the node's own administrator allows holds against an mpiexec that wants more.
func TestLimitsOfTheNode(t *testing.T) {
	k := newTalkUnder(t, limit.Bounds{limit.NoFile: 50, limit.Core: 0})
	k.prepareAs(func(m *wire.Prepare) {
		m.Streams.Stdin = nil
		m.Process.Bounds = []job.Bound{{Resource: limit.NoFile, Most: 60}, {Resource: limit.Stack, Most: 4 << 20}}
	}, "ulimit -n; ulimit -Hn; ulimit -c; ulimit -s")
	k.conn.Send(&wire.Start{})
	if exit := hear[*wire.Exited](k).Exit; exit.Status() != 0 || k.out[0] != "50\n50\n0\n4096\n" {
		t.Errorf("%+v, %q", exit, k.out[0])
	}
	k.bye()
}

// And it holds against one that does nothing about what it is told: the ranks are ended all the same.
func TestExcessOnTheNode(t *testing.T) {
	k := newTalkUnder(t, limit.Bounds{limit.WallTime: int64(time.Millisecond)})
	k.prepareAs(func(m *wire.Prepare) { m.Streams.Stdin, m.Supervision.Grace = nil, patience }, "exec sleep 600")
	k.conn.Send(&wire.Start{})
	told := hear[*wire.Exceeded](k)
	if told.Rank != -1 || told.Bound != (job.Bound{Resource: limit.WallTime, Most: int64(time.Millisecond)}) || told.Used <= told.Bound.Most {
		t.Errorf("%+v", told)
	}
	hear[*wire.Drained](k)
	k.conn.Send(&wire.Bye{})
	if err := k.end(); err != nil {
		t.Errorf("Serve: %v", err)
	}
}
