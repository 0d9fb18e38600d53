//go:build linux

package claims

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"remshell/helper/probe"
	"remshell/job"
	"remshell/ledger"
	"remshell/wire"
)

// newRequestWorker returns a worker that receives the requests to job j in a ledger, and the messages to mpiexec.
func newRequestWorker(t *testing.T) (w *Worker, said *wire.Conn, dir *ledger.Dir) {
	t.Helper()
	here, there := net.Pipe()
	said = wire.NewConn(here, wire.Launcher)
	name := t.TempDir()
	w = New(os.DirFS("/"), nil, wire.NewConn(there, wire.Helper).Send, CarriedClaims{})
	dir, err := ledger.Open(name, probe.Identity(os.DirFS("/")))
	if err != nil {
		t.Fatal(err)
	}
	w.ReceiveRequests(name, "j")
	t.Cleanup(func() { w.Close(); said.Abandon(); dir.Close() })
	return w, said, dir
}

func submitTestRequest(t *testing.T, dir *ledger.Dir) *ledger.PostedFile {
	t.Helper()
	slip, err := dir.PostRequest(job.ControlRequest{Job: "j", Owner: os.Geteuid(), UID: os.Geteuid(), Verb: job.VerbEnd, Since: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	return slip
}

func nextRequest(t *testing.T, said *wire.Conn) *wire.ControlRequest {
	t.Helper()
	m, err := said.Recv()
	ask, is := m.(*wire.ControlRequest)
	if err != nil || !is {
		t.Fatalf("%+v, %v", m, err)
	}
	return ask
}

// Mpiexec authorizes one request at a time. While it works on one, others do not wait. A requester that has died before its turn is skipped. The
// reply is what mpiexec sends.
func TestRequestOfDeadRequester(t *testing.T) {
	w, said, dir := newRequestWorker(t)
	first := submitTestRequest(t, dir)
	if ask := nextRequest(t, said); ask.ID != first.ID || ask.Role != job.RoleOwner {
		t.Errorf("%+v", ask)
	}
	dead, last := submitTestRequest(t, dir), submitTestRequest(t, dir)
	waiting := func() (n int) {
		done := make(chan bool)
		w.runTask(func() { n = len(w.requests.waiting); close(done) })
		<-done
		return n
	}
	for waiting() < 2 {
		time.Sleep(10 * time.Millisecond)
	}
	dead.Drop()
	w.HandleMessage(&wire.ControlReply{ID: "another", State: job.ReplyDone})
	w.HandleMessage(&wire.ControlReply{ID: first.ID, State: job.ReplyAccepted, Text: "soon"})
	w.HandleMessage(&wire.ControlReply{ID: first.ID, State: job.ReplyDone, Text: "now"})
	if ask := nextRequest(t, said); ask.ID != last.ID {
		t.Errorf("%+v", ask)
	}
	waiting() // the messages before are handled
	if a, found := dir.ReadReply(first.ID, os.Geteuid(), maxReplyBytes); !found || a.State != job.ReplyDone || a.Text != "now" {
		t.Errorf("%+v, %v", a, found)
	}
	w.Close()
	if _, found := dir.ReadReply(first.ID, os.Geteuid(), maxReplyBytes); found {
		t.Error("an answer outlives the job")
	}
}

// Administrators are read only from a file that only root can write.
func TestReadAdministrators(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, whose file it is")
	}
	file := filepath.Join(t.TempDir(), "cluster.toml")
	const text = "administrators = [\"77\", \"root\", \"nobody-of-this-name\"]\n[[node]]\nname = \"a\"\n"
	for _, test := range []struct {
		name  string
		text  string
		spoil func() error
		want  []int
		fails bool
	}{
		{"none", text, func() error { return os.Remove(file) }, nil, false},
		{"root's", text, func() error { return nil }, []int{77, 0}, false},
		{"another's", text, func() error { return os.Chown(file, 5, 5) }, nil, true},
		{"open to others", text, func() error { return os.Chmod(file, 0o666) }, nil, true},
		{"a fault", text + "x = 1\n", func() error { return nil }, nil, true},
	} {
		os.Remove(file)
		if err := errors.Join(os.WriteFile(file, []byte(test.text), 0o644), test.spoil()); err != nil {
			t.Fatal(err)
		}
		if got, err := probe.ReadAdministrators(file); !slices.Equal(got, test.want) || (err != nil) != test.fails {
			t.Errorf("%s: %v, %v", test.name, got, err)
		}
	}
}
