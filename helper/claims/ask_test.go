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

// asked is a worker that hears what is asked of job j in a ledger, and what mpiexec gets.
func asked(t *testing.T) (w *Worker, said *wire.Conn, dir *ledger.Dir) {
	t.Helper()
	here, there := net.Pipe()
	said = wire.NewConn(here, wire.Launcher)
	name := t.TempDir()
	w = New(os.DirFS("/"), nil, wire.NewConn(there, wire.Helper).Send, Rested{})
	dir, err := ledger.Open(name, probe.Identity(os.DirFS("/")))
	if err != nil {
		t.Fatal(err)
	}
	w.Hear(name, "j")
	t.Cleanup(func() { w.Close(); said.Abandon(); dir.Close() })
	return w, said, dir
}

func show(t *testing.T, dir *ledger.Dir) *ledger.Slip {
	t.Helper()
	slip, err := dir.Ask(job.Ask{Job: "j", Owner: os.Geteuid(), UID: os.Geteuid(), Verb: job.AskEnd, Since: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	return slip
}

func next(t *testing.T, said *wire.Conn) *wire.Ask {
	t.Helper()
	m, err := said.Recv()
	ask, is := m.(*wire.Ask)
	if err != nil || !is {
		t.Fatalf("%+v, %v", m, err)
	}
	return ask
}

// Mpiexec judges one ask at a time, and what it does keeps no other waiting; who has died before his turn asks nothing. The answer follows what
// mpiexec says.
func TestAnAskOfTheDead(t *testing.T) {
	w, said, dir := asked(t)
	first := show(t, dir)
	if ask := next(t, said); ask.ID != first.ID || ask.Right != job.Owner {
		t.Errorf("%+v", ask)
	}
	dead, last := show(t, dir), show(t, dir)
	waiting := func() (n int) {
		done := make(chan bool)
		w.do(func() { n = len(w.asks.waiting); close(done) })
		<-done
		return n
	}
	for waiting() < 2 {
		time.Sleep(10 * time.Millisecond)
	}
	dead.Drop()
	w.Take(&wire.Answer{ID: "another", State: job.AskDone})
	w.Take(&wire.Answer{ID: first.ID, State: job.AskTaken, Text: "soon"})
	w.Take(&wire.Answer{ID: first.ID, State: job.AskDone, Text: "now"})
	if ask := next(t, said); ask.ID != last.ID {
		t.Errorf("%+v", ask)
	}
	waiting() // what mpiexec has said before is done
	if a, found := dir.Answer(first.ID, os.Geteuid(), maxAnswer); !found || a.State != job.AskDone || a.Text != "now" {
		t.Errorf("%+v, %v", a, found)
	}
	w.Close()
	if _, found := dir.Answer(first.ID, os.Geteuid(), maxAnswer); found {
		t.Error("an answer outlives the job")
	}
}

// Administrators are those of a file that is root's alone.
func TestWhoIsAnAdministrator(t *testing.T) {
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
		if got, err := probe.Administrators(file); !slices.Equal(got, test.want) || (err != nil) != test.fails {
			t.Errorf("%s: %v, %v", test.name, got, err)
		}
	}
}
