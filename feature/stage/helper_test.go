//go:build linux

package stage

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"remshell/helper"
	"remshell/job"
	"remshell/wire"
)

// testTimeout is for steps that have no reason to take long.
const testTimeout = 5 * time.Minute

// A testHelper is a connection to a helper that this process serves. Its ranks are children of this process, so such
// tests run one after the other.
type testHelper struct {
	dir      string // its home, and the folder for its files
	conn     *wire.Conn
	received chan wire.Message // closed at the end
	served   chan error        // what Serve returned
}

func newTestHelper(t *testing.T) *testHelper {
	t.Helper()
	here, there := net.Pipe()
	k := &testHelper{t.TempDir(), wire.NewConn(here, wire.Launcher), make(chan wire.Message, 1024), make(chan error, 1)}
	t.Cleanup(func() { k.conn.Abandon() })
	sys := helper.System{Build: "test", Root: os.DirFS("/"), Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + k.dir, "TMPDIR=" + k.dir}}
	go func() { k.served <- helper.Serve(context.Background(), there, sys) }()
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
	return k
}

// prepare returns a Prepare for ranks that run a staged program.
func (k *testHelper) prepare(program string, ranks int) *wire.Prepare {
	m := &wire.Prepare{Job: "j", Group: wire.Group{Name: "g", Size: ranks, NodeCount: 1}, Node: wire.GroupNode{Name: "here"}, Process: wire.Process{Umask: -1},
		Supervision: wire.Supervision{Grace: 10 * time.Millisecond}, Claim: wire.Claim{Ledger: k.dir, MaxProcs: -1, IgnoreOthers: true},
		Apps: []job.App{{Argv: []string{program, "-c", "exit 0"}, Dir: "/", StagedFile: program}}}
	for rank := range ranks {
		m.Ranks = append(m.Ranks, job.RankPlan{Rank: rank})
	}
	return m
}

// awaitEnd waits until the helper is over.
func (k *testHelper) awaitEnd(t *testing.T) {
	t.Helper()
	select {
	case <-k.served:
	case <-time.After(testTimeout):
		stacks := make([]byte, 256<<10)
		t.Fatalf("it is not over after %v:\n%s", testTimeout, stacks[:runtime.Stack(stacks, true)])
	}
}

// receive returns the helper's next message of a type. It skips the messages before.
func receive[M wire.Message](t *testing.T, k *testHelper) (found M) {
	t.Helper()
	for {
		select {
		case m, open := <-k.received:
			if found, is := m.(M); is {
				return found
			}
			if !open {
				t.Fatalf("the helper ended without %T", found)
			}
		case <-time.After(testTimeout):
			t.Fatalf("the helper says nothing for %v", testTimeout)
		}
	}
}

// Files that cannot be staged are the failure of the ranks, not of the helper. Until then it does not know which PMI a
// staged program is to be offered.
func TestFailedStagingFailsTheRanks(t *testing.T) {
	k := newTestHelper(t)
	twice := job.StagedFile{Name: "sh", Path: "/bin/sh"} // no folder takes two links of one name
	k.conn.Send(&StageFiles{InPlace: true, Files: []job.StagedFile{twice, twice}})
	k.conn.Send(k.prepare("sh", 2))
	receive[*wire.Prepared](t, k)
	k.conn.Send(&wire.Start{Group: "g"})
	for range 2 {
		if m := receive[*wire.Started](t, k); m.Code != job.ExitInternal || !strings.Contains(m.Err, "cannot create links to the files of --stage") {
			t.Errorf("rank %d: %d %q", m.Rank, m.Code, m.Err)
		}
	}
	k.conn.Send(&wire.Bye{})
	k.awaitEnd(t)
}

// FuzzStaging is an mpiexec that sends files and starts ranks in any order. The helper ends when mpiexec is gone, and
// leaves no file.
func FuzzStaging(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0, 4, 3, 4, 1, 2, 'e', 'x', 'i', 't', 0})
	f.Add([]byte{1, 0, 3, 4, 5})
	f.Add([]byte{0, 1, 9, 0, 0, 9, 2, 0, 0, 3, 4})
	f.Add([]byte{3, 4, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0})
	f.Fuzz(func(t *testing.T, bytes []byte) {
		next := func() (b byte) {
			if len(bytes) > 0 {
				b, bytes = bytes[0], bytes[1:]
			}
			return b
		}
		name := func() string { return []string{"sh", "a", "../a", "", "b/c"}[next()%5] }
		k := newTestHelper(t)
		for len(bytes) > 0 {
			switch next() % 6 {
			case 0:
				k.conn.Send(&StageFiles{Files: []job.StagedFile{{Name: name(), Path: "/bin/sh", Size: int64(next())}}, Sums: []string{strings.Repeat("0f", 32)}})
			case 1:
				k.conn.Send(&StageFiles{Files: []job.StagedFile{{Name: name(), Path: "/bin/sh"}, {Name: name(), Path: "sh"}}, InPlace: next()%2 == 0})
			case 2:
				k.conn.Send(&FileChunk{File: int(next() % 3), Size: int(next()%2) << 18, Bytes: bytes[:len(bytes)/2]})
			case 3:
				k.conn.Send(k.prepare("sh", 1+int(next()%2)))
			case 4:
				k.conn.Send(&wire.Start{Group: "g"})
			case 5: // the helper has handled all before
				k.conn.Send(&wire.ReadMarks{})
				select {
				case <-k.received:
				case <-time.After(20 * time.Millisecond):
				}
			}
		}
		k.conn.Close()
		k.awaitEnd(t)
		if left, _ := filepath.Glob(filepath.Join(k.dir, "remshell*", "stage", "*")); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	})
}
