//go:build linux

package cli

import (
	"context"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"remshell/transport"
	"remshell/wire"
)

// A mixedDialer reaches three hosts: a replies, b only sends Hello, c sends nothing.
type mixedDialer struct{ replies map[string]wire.Message }

func (p mixedDialer) Dial(ctx context.Context, hosts []transport.Host) <-chan transport.Result {
	return transport.DialEach(ctx, hosts, p.dial)
}

func (p mixedDialer) dial(_ context.Context, node transport.Host) (io.ReadWriteCloser, error) {
	launcherEnd, helperEnd := net.Pipe()
	if node.Name == "c" {
		go io.Copy(io.Discard, helperEnd)
		return launcherEnd, nil
	}
	s := &fakeHelper{conn: wire.NewConn(helperEnd, wire.Helper), replies: p.replies, alter: func(wire.Message) {}}
	s.silent = node.Name == "b"
	go s.serve()
	return launcherEnd, nil
}

// A silent host does not delay or hide what other hosts reply (TRUST-36).
func TestSilentHosts(t *testing.T) {
	const before, after = "c: mpiexec on the host was started, but did not answer within 1 s", "b: mpiexec on the host was started, but did not answer within "
	var all sync.WaitGroup // they wait most of the time
	defer all.Wait()
	for _, test := range []struct {
		name, line string
		code       int
		shown      []string
	}{
		{"doctor", "--doctor a,b,c", 125, []string{"a    1 core", after + "5 s", before, "3 hosts, 1 reached"}},
		{"doctor as JSON", "--doctor --json a,b,c", 125, []string{`"host":"a","reached":true`, `"hosts":["b"]`, "did not answer within 5 s", `"hosts":["c"]`}},
		{"ps", "--ps a b c", 0, []string{"j    u(1)", "mpiexec: " + after + "5 s\n", "mpiexec: " + before + "; skipped\n"}},
		{"queue", "--queue a b c", 0, []string{"1         w", "mpiexec: " + after + "5 s\n", before}},
		{"queue of a silent host", "--queue b a", 0, []string{"mpiexec: " + after + "5 s\n"}},
		{"nobody answers", "--ps b", 125, []string{"mpiexec: " + after + "5 s\n"}},
		{"status", "--status j a b c", 0, []string{"job      j runs", after + "5 s", before}},
		{"signal", "--signal USR1 j a b c", 0, []string{after + "5 s", before}},
		{"dry run", "--dry-run --probe --skip-unreachable -n 1 -host a,b,c true", 0, []string{"rank 0", "not used  b,", before}},
		{"start", "-n 1 -host a,b true", 125, []string{"mpiexec: " + after + "1 s\n  hint: to start without the hosts that cannot be reached: --skip-unreachable\n"}},
		{"start, silent before", "-n 1 -host a,c true", 125, []string{"mpiexec: " + before + "\n  hint: to start without the hosts that cannot be reached: --skip-unreachable\n"}},
		{"start on the others", "--skip-unreachable -n 1 -host a,b,c true", 0, []string{"mpiexec: b," + before + "; skipped\n"}},
	} {
		all.Go(func() {
			listed := sampleMessages()["LedgerListed"].(*wire.LedgerListed)
			listed.Err, listed.Tickets[0].Job = "", "w"
			if test.name == "dry run" { // no ticket is ahead of the job
				listed.Tickets = nil
			}
			ctx, done := context.WithTimeout(t.Context(), 5*time.Minute)
			defer done()
			var printed syncBuffer
			began := time.Now()
			code := Main(ctx, strings.Fields("--shell-timeout 1 "+test.line), System{
				In: strings.NewReader(""), Out: &printed, Err: &printed, FS: os.DirFS("/"), Suspend: func() {}, CatchSignal: func(os.Signal) {},
				Environ: []string{"HOME=" + t.TempDir(), "USER=me", "PATH=/bin"}, Getwd: func() (string, error) { return "/", nil },
				Dialer: mixedDialer{map[string]wire.Message{"ListLedger": listed, "SignalJob": &wire.JobSignaled{Ranks: 2}}},
			})
			if took := time.Since(began); code != test.code || took > 4*time.Minute {
				t.Errorf("%s: code %d after %v, want %d", test.name, code, took, test.code)
			}
			for _, text := range test.shown {
				if !strings.Contains(printed.String(), text) {
					t.Errorf("%s: %q is not in\n%s", test.name, text, printed.String())
				}
			}
		})
	}
}
