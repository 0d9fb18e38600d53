//go:build linux

package usage

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"remshell/helper"
	"remshell/job"
	"remshell/limits"
	"remshell/proc"
	"remshell/wire"
)

// A testHelper is a connection to a helper that this process serves. Its ranks are children of this process, so such
// tests run one after the other.
type testHelper struct {
	t        *testing.T
	conn     *wire.Conn
	received chan wire.Message // all its messages; closed at the end
	served   chan error        // what Serve returned
	out      map[int]string    // stdout so far, by rank
}

// testTimeout is for steps that have no reason to take long.
const testTimeout = 5 * time.Minute

// newTestHelper returns a testHelper whose node has limits.
func newTestHelper(t *testing.T, most limits.Map) *testHelper {
	t.Helper()
	here, there := net.Pipe()
	k := &testHelper{t, wire.NewConn(here, wire.Launcher), make(chan wire.Message, 1024), make(chan error, 1), make(map[int]string)}
	t.Cleanup(func() { k.conn.Abandon() })
	sys := helper.System{Build: "test", Root: os.DirFS("/"), Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=/"}, Limits: func() (limits.Map, error) { return most, nil }}
	go func() { k.served <- helper.Serve(t.Context(), there, sys) }()
	if _, _, err := k.conn.ReceiveHello(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(k.received)
		for {
			m, err := k.conn.Recv()
			if err != nil {
				return
			}
			k.received <- m
		}
	}()
	receive[*wire.NodeInfo](k)
	return k
}

// nextMessage returns the helper's next message, or nil at the end.
func (k *testHelper) nextMessage() wire.Message {
	k.t.Helper()
	select {
	case m := <-k.received:
		if d, ok := m.(*wire.Data); ok && d.Stream == wire.Stdout {
			k.out[d.Rank] += string(d.Bytes)
		}
		return m
	case <-time.After(testTimeout):
		k.t.Fatalf("the helper says nothing for %v", testTimeout)
	}
	return nil
}

// receive returns the next message of a type. It skips the messages before.
func receive[M wire.Message](k *testHelper) M {
	k.t.Helper()
	for {
		switch m := k.nextMessage().(type) {
		case M:
			return m
		case nil:
			k.t.Fatalf("the helper ended without %T", *new(M))
		}
	}
}

// start prepares one rank for each sh script, as change wants it, and starts them.
func (k *testHelper) start(change func(*wire.Prepare), scripts ...string) {
	k.t.Helper()
	m := &wire.Prepare{Job: "test", Group: wire.Group{Size: len(scripts), NodeCount: 1}, Node: wire.GroupNode{Name: "here"}, Process: wire.Process{Umask: -1}, Supervision: wire.Supervision{Grace: 100 * time.Millisecond},
		Claim: wire.Claim{Ledger: k.t.TempDir(), MaxProcs: -1}}
	for i, script := range scripts {
		m.Apps = append(m.Apps, job.App{Argv: []string{"/bin/sh", "-c", script}, Dir: "/"})
		m.Ranks = append(m.Ranks, job.RankPlan{Rank: i, Local: i, App: i, RankResources: new(job.RankResources)})
	}
	change(m)
	k.conn.Send(m)
	receive[*wire.Prepared](k)
	k.conn.Send(&wire.Start{})
}

// end ends the job, if the helper does not by itself, and checks that the helper leaves no process.
func (k *testHelper) end() {
	k.t.Helper()
	k.conn.Send(&wire.EndJob{})
	k.awaitEnd()
}

// awaitEnd waits for the end of a job that is being ended, and checks that the helper leaves no process.
func (k *testHelper) awaitEnd() {
	k.t.Helper()
	receive[*wire.Drained](k)
	k.conn.Send(&wire.Bye{})
	select {
	case err := <-k.served:
		if left := proc.Descendants(os.Getpid()); err != nil || len(left) > 0 {
			k.t.Errorf("Serve: %v; processes left behind: %v", err, left)
		}
	case <-time.After(testTimeout):
		k.t.Fatalf("the helper is not over after %v", testTimeout)
	}
}

// The reported memory of a rank is its own, not that of the helper that forks it.
func TestPeaksAreTheRanksOwn(t *testing.T) {
	large := make([]byte, 64<<20) // makes the helper large, too
	for i := 0; i < len(large); i += 4096 {
		large[i] = 1
	}
	k := newTestHelper(t, nil)
	k.start(func(m *wire.Prepare) { m.Settings = []wire.Setting{&Sampling{SmallRanks: true}} }, "exec /bin/true", "exec sleep 0.1",
		"exec dd if=/dev/zero of=/dev/null bs=100M count=1 2>/dev/null")
	most := []int64{16 << 20, 16 << 20, 160 << 20}
	least := []int64{0, 100 << 10, 10 << 20} // the last one as far as it was seen: the helper had more
	for range most {
		exit := receive[*wire.Exited](k).Exit
		if got := exit.Usage.MaxRSS; got > most[exit.Rank] || got < least[exit.Rank] {
			t.Errorf("rank %d: %d bytes, want %d to %d", exit.Rank, got, least[exit.Rank], most[exit.Rank])
		}
	}
	k.end()
	runtime.KeepAlive(large)
}

// The node's own limits hold even if mpiexec wants more.
func TestLimitsOfTheNode(t *testing.T) {
	k := newTestHelper(t, limits.Map{limits.NoFile: 50, limits.Core: 0})
	k.start(func(m *wire.Prepare) {
		m.Process.KernelLimits = []job.KernelLimit{{Resource: limits.NoFile, Max: 60}, {Resource: limits.Stack, Max: 4 << 20}}
	}, "ulimit -n; ulimit -Hn; ulimit -c; ulimit -s")
	if exit := receive[*wire.Exited](k).Exit; exit.Status() != 0 || k.out[0] != "50\n50\n0\n4096\n" {
		t.Errorf("%+v, %q", exit, k.out[0])
	}
	k.end()
}

// They also hold if mpiexec does not react to LimitExceeded: the helper ends the ranks.
func TestExcessOnTheNode(t *testing.T) {
	k := newTestHelper(t, limits.Map{limits.WallTime: int64(time.Millisecond)})
	k.start(func(m *wire.Prepare) { m.Supervision.Grace = testTimeout }, "exec sleep 600")
	told := receive[*LimitExceeded](k)
	if told.Rank != -1 || told.Limit != (job.KernelLimit{Resource: limits.WallTime, Max: int64(time.Millisecond)}) || told.Used <= told.Limit.Max {
		t.Errorf("%+v", told)
	}
	k.awaitEnd()
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
		k := newTestHelper(t, test.most)
		k.conn.Send(&wire.Prepare{Job: "test", Group: wire.Group{Size: 1, NodeCount: 1}, Node: wire.GroupNode{Name: "here"}, Process: wire.Process{Umask: -1},
			Supervision: wire.Supervision{LeaveChildren: true}, Claim: wire.Claim{Ledger: t.TempDir(), MaxProcs: -1},
			Apps: []job.App{{Argv: []string{"/bin/true"}, Dir: "/"}}, Ranks: []job.RankPlan{{RankResources: new(job.RankResources)}}})
		for {
			m := k.nextMessage()
			refused, is := m.(*wire.Refused)
			if _, prepared := m.(*wire.Prepared); !is && !prepared {
				continue
			}
			if is != test.refused || is && !strings.HasPrefix(refused.Reason, "--leave-children cannot be used on this host: mpiexec could not enforce the limits of the host") {
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
func (k *testHelper) excess(ready int) *LimitExceeded {
	k.t.Helper()
	for samples := 0; samples < 4; {
		switch m := k.nextMessage().(type) {
		case *LimitExceeded:
			return m
		case *SampledUsage:
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
			k := newTestHelper(t, limits.Map{test.what: most})
			scripts := make([]string, len(test.ranks))
			for i, does := range test.ranks {
				scripts[i] = strings.ReplaceAll("PROGRAM "+does, "PROGRAM", program)
			}
			k.start(func(m *wire.Prepare) {
				m.Settings, m.Supervision.Grace = []wire.Setting{new(Sampling)}, testTimeout
			}, scripts...)
			told := k.excess(test.ready)
			if (told != nil) != test.over || told != nil && (told.Rank != test.rank || told.Limit != (job.KernelLimit{Resource: test.what, Max: most}) || told.Used <= most) {
				t.Errorf("%+v", told)
			}
			k.end()
		})
	}
}
