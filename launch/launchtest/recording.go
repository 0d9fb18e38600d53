//go:build linux

package launchtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"remshell/job"
	"remshell/pmiserver/pmix/message"
	"remshell/test/pmixtest"
	"remshell/transport"
	"remshell/wire"
)

// A Recorder starts helpers as a Dialer does. It records the kind of each message on each connection, as
// "n1 > Prepare" (to n1) and "n1 < Prepared".
type Recorder struct {
	Dialer
	Log         Buffer // what was recorded so far
	scribe      sync.WaitGroup
	OnPrepare   func() // called before a Prepare is sent; may be nil
	ReachedOnce string // a node that can be reached only once; empty: none
	reached     atomic.Int32
}

// Dial starts the helpers of hosts. It implements node.HelperDialer.
func (r *Recorder) Dial(ctx context.Context, hosts []transport.Host) <-chan transport.Result {
	return transport.DialEach(ctx, hosts, r.dial)
}

func (r *Recorder) dial(ctx context.Context, host transport.Host) (io.ReadWriteCloser, error) {
	if host.Name == r.ReachedOnce && r.reached.Add(1) > 1 {
		return nil, errors.New("connection refused")
	}
	stream, err := r.Dialer.DialHost(ctx, host)
	if err != nil {
		return nil, err
	}
	said, heard := r.listen(host.Name+" > ", wire.Helper), r.listen(host.Name+" < ", wire.Launcher)
	return tapped{io.TeeReader(stream, heard), io.MultiWriter(hook{r}, stream, said), func() error {
		return errors.Join(stream.Close(), said.Close(), heard.Close())
	}}, nil
}

// A hook is called with each message to a helper before it is sent. Each write begins with a frame.
type hook struct{ *Recorder }

func (h hook) Write(frames []byte) (int, error) {
	if h.OnPrepare != nil && frames[0] == wire.Encode(&wire.Prepare{})[0] {
		h.OnPrepare()
	}
	return len(frames), nil
}

// listen returns a writer for all bytes that side sends. It records the kinds of the messages in them.
func (r *Recorder) listen(prefix string, side wire.Side) io.WriteCloser {
	out, in := io.Pipe()
	conn := wire.NewConn(tapped{out, io.Discard, out.Close}, side)
	note := func(m wire.Message) { io.WriteString(&r.Log, prefix+wire.NameOf(m)+"\n") }
	r.scribe.Go(func() {
		defer conn.Abandon()
		defer io.Copy(io.Discard, out) // the sender must not wait for the recorder
		if side == wire.Launcher {
			hello, _, err := conn.ReceiveHello()
			if err != nil {
				return
			}
			note(hello)
		}
		for {
			m, err := conn.Recv()
			if err != nil {
				return
			}
			note(m)
		}
	})
	return in
}

// A tapped is a stream whose reader, writer and closer are separate.
type tapped struct {
	io.Reader
	io.Writer
	close func() error
}

func (t tapped) Close() error { return t.close() }

// Recorded returns all recorded lines. The connections must be closed.
func (r *Recorder) Recorded() string {
	r.scribe.Wait()
	return r.Log.String()
}

// kinds returns the recorded kinds of messages. The connections must be closed.
func (r *Recorder) kinds() map[string]bool {
	said := make(map[string]bool)
	for line := range strings.Lines(r.Recorded()) {
		said[strings.Fields(line)[2]] = true
	}
	return said
}

// A Recording runs jobs whose messages are recorded. All its jobs share one ledger.
type Recording struct {
	*testing.T
	Recorder  *Recorder
	LedgerDir string
}

// NewRecording returns a recording without jobs.
func NewRecording(t *testing.T) Recording { return Recording{t, &Recorder{}, t.TempDir()} }

// Add lets a job use the Recording's helpers and ledger, and returns it.
func (s Recording) Add(r *Run) *Run {
	r.Dialer, r.Req.Queue.LedgerDir = s.Recorder, s.LedgerDir
	return r
}

// MustExit runs a job that exits with code or, if code is negative, does not start.
func (s Recording) MustExit(r *Run, code int) {
	s.Helper()
	result, err := s.Add(r).Do(s.T)
	if code < 0 && err == nil || code >= 0 && (err != nil || result.Code != code) {
		s.Errorf("code %d, %v, want %d; stdout %q, stderr %q", result.Code, err, code, r.Out.String(), r.Err.String())
	}
}

// OtherLauncher returns a connection of another user's mpiexec to a helper on a node. It is not recorded.
func (s Recording) OtherLauncher(node string) *wire.Conn {
	s.Helper()
	stream, err := s.Recorder.Dialer.DialHost(s.Context(), transport.Host{Name: node})
	if err != nil {
		s.Fatal(err)
	}
	conn := wire.NewConn(stream, wire.Launcher)
	s.Cleanup(func() { conn.Close() })
	if _, _, err := conn.ReceiveHello(); err != nil {
		s.Fatal(err)
	}
	return conn
}

// Expect waits until a message of this kind arrives.
func (s Recording) Expect(conn *wire.Conn, kind string) {
	s.Helper()
	for {
		m, err := conn.Recv()
		if err != nil {
			s.Fatalf("no %s: %v", kind, err)
		}
		if wire.NameOf(m) == kind {
			return
		}
	}
}

// Occupy claims all CPUs of a node for another job. The claim lasts until the connection is closed.
func (s Recording) Occupy(node string) *wire.Conn {
	s.Helper()
	return s.Claim(node, job.Claim{Job: "other", Exclusive: true})
}

// Claim claims CPUs of a node for another job. The claim lasts until the connection is closed.
func (s Recording) Claim(node string, claim job.Claim, cpus ...int) *wire.Conn {
	s.Helper()
	conn := s.OtherLauncher(node)
	conn.Send(&wire.Prepare{Job: claim.Job, Group: wire.Group{Name: string(claim.Job), Size: 1, NodeCount: 1}, Process: wire.Process{Umask: -1},
		Claim: wire.Claim{Entry: claim, Ledger: s.LedgerDir, MaxProcs: -1},
		Apps:  []job.App{{Argv: []string{"/bin/true"}, Dir: "/"}}, Ranks: []job.RankPlan{{RankResources: &job.RankResources{ClaimedCPUs: cpus}}}})
	s.Expect(conn, "Prepared")
	return conn
}

// EncodeRequest returns a PMIx request as one line of a script for a rank (PMIxMark).
func EncodeRequest(request message.Request) string {
	body := pmixtest.Encode(request)
	return fmt.Sprintf("message %x\n", append(message.AppendHeader(nil, 1, len(body)), body...))
}

// RecordJobs calls play, which runs jobs. Then it checks that messages of all kinds were sent. kinds is a
// list of names, separated by blanks.
func RecordJobs(t *testing.T, kinds string, play func(Recording)) {
	s := NewRecording(t)
	play(s)
	said := s.Recorder.kinds()
	for kind := range strings.FieldsSeq(kinds) {
		if !said[kind] {
			t.Errorf("no %s was sent:\n%s", kind, s.Recorder.Log.String())
		}
	}
}
