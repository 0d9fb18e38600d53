//go:build linux

package helper

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
	"remshell/limits"
	"remshell/wire"
)

// The reported memory of a rank is its own, not that of the helper that forks it.
func TestPeaksAreTheRanksOwn(t *testing.T) {
	large := make([]byte, 64<<20) // makes the helper large, too
	for i := 0; i < len(large); i += 4096 {
		large[i] = 1
	}
	k := newTestHelper(t)
	k.prepareAs(func(m *wire.Prepare) { m.Streams.Stdin, m.Supervision.SampleSmallRanks = nil, true }, "exec /bin/true", "exec sleep 0.1",
		"exec dd if=/dev/zero of=/dev/null bs=100M count=1 2>/dev/null")
	k.conn.Send(&wire.Start{})
	most := []int64{16 << 20, 16 << 20, 160 << 20}
	least := []int64{0, 100 << 10, 10 << 20} // the last one as far as it was seen: the helper had more
	for range most {
		exit := receive[*wire.Exited](k).Exit
		if got := exit.Usage.MaxRSS; got > most[exit.Rank] || got < least[exit.Rank] {
			t.Errorf("rank %d: %d bytes, want %d to %d", exit.Rank, got, least[exit.Rank], most[exit.Rank])
		}
	}
	k.bye()
	runtime.KeepAlive(large)
}

// A rank has mpiexec's limits from its first instruction on.
func TestARankIsBornWithItsLimits(t *testing.T) {
	const script = "ulimit -Sn; ulimit -Sf; ulimit -Sl; ulimit -St; ulimit -Sv; ulimit -Ss"
	const want = "321\n2048\n32\n7777\n1073741824\n4000\n" // shells count blocks of 512 bytes, and KiB
	var before [16]unix.Rlimit
	for i := range before {
		unix.Getrlimit(i, &before[i])
	}
	k := newTestHelper(t)
	k.prepareAs(func(m *wire.Prepare) {
		m.Streams.Stdin = nil
		m.Process.SoftLimits = []job.SoftLimit{{Resource: unix.RLIMIT_NOFILE, Soft: 321}, {Resource: unix.RLIMIT_FSIZE, Soft: 1 << 20},
			{Resource: unix.RLIMIT_MEMLOCK, Soft: 32 << 10}, {Resource: unix.RLIMIT_CPU, Soft: 7777},
			{Resource: unix.RLIMIT_AS, Soft: 1 << 40}, {Resource: unix.RLIMIT_STACK, Soft: 4000 << 10}}
	}, slices.Repeat([]string{script}, 30)...)
	k.conn.Send(&wire.Start{})
	for range 30 {
		exit := receive[*wire.Exited](k).Exit
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

// The node's own limits hold even if mpiexec wants more.
func TestLimitsOfTheNode(t *testing.T) {
	k := newLimitedTestHelper(t, limits.Map{limits.NoFile: 50, limits.Core: 0})
	k.prepareAs(func(m *wire.Prepare) {
		m.Streams.Stdin = nil
		m.Process.KernelLimits = []job.KernelLimit{{Resource: limits.NoFile, Max: 60}, {Resource: limits.Stack, Max: 4 << 20}}
	}, "ulimit -n; ulimit -Hn; ulimit -c; ulimit -s")
	k.conn.Send(&wire.Start{})
	if exit := receive[*wire.Exited](k).Exit; exit.Status() != 0 || k.out[0] != "50\n50\n0\n4096\n" {
		t.Errorf("%+v, %q", exit, k.out[0])
	}
	k.bye()
}

// They also hold if mpiexec does not react to LimitExceeded: the helper ends the ranks.
func TestExcessOnTheNode(t *testing.T) {
	k := newLimitedTestHelper(t, limits.Map{limits.WallTime: int64(time.Millisecond)})
	k.prepareAs(func(m *wire.Prepare) { m.Streams.Stdin, m.Supervision.Grace = nil, testTimeout }, "exec sleep 600")
	k.conn.Send(&wire.Start{})
	told := receive[*wire.LimitExceeded](k)
	if told.Rank != -1 || told.Limit != (job.KernelLimit{Resource: limits.WallTime, Max: int64(time.Millisecond)}) || told.Used <= told.Limit.Max {
		t.Errorf("%+v", told)
	}
	receive[*wire.Drained](k)
	k.conn.Send(&wire.Bye{})
	if err := k.endJob(); err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// memoryHog builds a program that uses memory in ways that a limit can miss.
func memoryHog(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "hog")
	if out, err := exec.Command("go", "build", "-o", program, "./testdata/memoryhog").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// If the helper's exit would leave processes unlimited, --leave-children is refused on a node with limits.
func TestNothingStaysUnderLimitsOfTheNode(t *testing.T) {
	for _, test := range []struct {
		most    limits.Map
		refused bool
	}{{limits.Map{limits.HostMem: 1 << 30}, true}, {limits.Map{limits.NoFile: 50}, false}, {nil, false}} {
		k := newLimitedTestHelper(t, test.most)
		k.conn.Send(&wire.Prepare{Job: "test", Group: wire.Group{Size: 1, NodeCount: 1}, Node: wire.GroupNode{Name: "here"}, Process: wire.Process{Umask: -1},
			Supervision: wire.Supervision{LeaveChildren: true}, Claim: wire.Claim{Ledger: t.TempDir(), MaxProcs: -1},
			Apps: []job.App{{Argv: []string{"/bin/true"}, Dir: "/"}}, Ranks: []job.RankPlan{{RankResources: new(job.RankResources)}}})
		for {
			m := k.nextMessage()
			refused, is := m.(*wire.Refused)
			if _, prepared := m.(*wire.Prepared); !is && !prepared {
				continue
			}
			if is != test.refused || is && !strings.HasPrefix(refused.Reason, "--leave-children: nobody would hold what stays to the limits of this node") {
				t.Errorf("%v: %+v", test.most, m)
			}
			break
		}
		k.conn.Abandon()
		<-k.served
	}
}

// excess waits for LimitExceeded. It returns nil if there is none in some samples after ready processes have printed
// "ready".
func (k *testHelper) excess(ready int) *wire.LimitExceeded {
	k.t.Helper()
	for samples := 0; samples < 4; {
		switch m := k.nextMessage().(type) {
		case *wire.LimitExceeded:
			return m
		case *wire.SampledUsage:
			said := 0
			for _, text := range k.out {
				said += strings.Count(text, "ready\n")
			}
			if said >= ready {
				samples++
			}
		case nil:
			k.t.Fatal("the helper ended")
		}
	}
	return nil
}

// The node's memory limit also counts memory in memory files, mapped or not, and processes of no known rank. Memory
// that several processes share counts once.
func TestLimitsOfMemory(t *testing.T) {
	program := memoryHog(t)
	const most = 96 << 20
	for _, test := range []struct {
		name  string
		what  limits.Resource
		ranks []string // what the program does in each
		ready int      // processes that print it
		over  bool
		rank  int // that exceeds the limit
	}{
		{"memory of its own", limits.HostMem, []string{"heap 128"}, 1, true, -1},
		{"a memfd", limits.HostMem, []string{"memfd 128"}, 1, true, -1},
		{"a file of shared memory that nobody has open", limits.HostMem, []string{"shm 128"}, 1, true, -1},
		{"half each", limits.HostMem, []string{"heap 64", "memfd 64"}, 2, true, -1},
		{"shared by four processes", limits.HostMem, []string{"window 64 4"}, 4, false, 0},
		{"shared by four processes, too much", limits.HostMem, []string{"window 128 4"}, 4, true, -1},
		{"a rank", limits.RankMem, []string{"heap 128", "heap 1"}, 2, true, 0},
		{"a daemon of the only rank", limits.RankMem, []string{"daemon 128; exec sleep 1000"}, 1, true, 0},
		{"a daemon that takes what its rank has left", limits.RankMem, []string{"daemon 64; exec PROGRAM heap 64"}, 2, true, 0},
		{"a daemon of one of two ranks", limits.RankMem, []string{"daemon 128; exec PROGRAM heap 1", "heap 1"}, 3, true, -1},
		{"small daemons", limits.RankMem, []string{"daemon 8; exec PROGRAM heap 1", "heap 1"}, 3, false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			k := newLimitedTestHelper(t, limits.Map{test.what: most})
			scripts := make([]string, len(test.ranks))
			for i, does := range test.ranks {
				scripts[i] = strings.ReplaceAll("PROGRAM "+does, "PROGRAM", program)
			}
			k.prepareAs(func(m *wire.Prepare) {
				m.Streams.Stdin, m.Supervision.SampleUsage, m.Supervision.Grace = nil, true, testTimeout
			}, scripts...)
			k.conn.Send(&wire.Start{})
			told := k.excess(test.ready)
			if (told != nil) != test.over || told != nil && (told.Rank != test.rank || told.Limit != (job.KernelLimit{Resource: test.what, Max: most}) || told.Used <= most) {
				t.Errorf("%+v", told)
			}
			k.conn.Send(&wire.EndJob{})
			receive[*wire.Drained](k)
			k.conn.Send(&wire.Bye{})
			if err := k.endJob(); err != nil {
				t.Errorf("Serve: %v", err)
			}
		})
	}
}
