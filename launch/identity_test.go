//go:build linux

package launch_test

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"remshell/launch/launchtest"
	"remshell/usererr"
	"remshell/wire"
)

// Two names of one machine are one node: each helper finds the mark of the other, and the marks are
// removed.
func TestTwoNamesOfOneMachine(t *testing.T) {
	before, _ := filepath.Glob("/dev/shm/remshell-*")
	r := launchtest.NewRun(2, `echo $MPIEXEC_HOST`, "a~1", "a~2")
	if result, err := r.Do(t); err != nil || result.Code != 0 || r.Out.String() != "a~1\na~1\n" {
		t.Errorf("code %d, %v, %q, stderr %q", result.Code, err, r.Out.String(), r.Err.String())
	}
	if after, _ := filepath.Glob("/dev/shm/remshell-*"); len(after) > len(before) {
		t.Errorf("left behind: %q", after)
	}
}

// A host that reports the identity of another one does not replace it (TRUST-6): a node that has
// not found the other's mark is not used.
func TestMachinesThatAreNot(t *testing.T) {
	for _, test := range []struct {
		name  string
		finds map[string]string // by node, whose mark it finds beside its own
		want  string
	}{
		{"neither", nil, "x and z are not used"},
		{"one of them", map[string]string{"z": "x"}, "x is not used"},
		{"the other one", map[string]string{"x": "z"}, "z is not used"},
	} {
		var mu sync.Mutex // guards marks
		marks := make(map[string]string)
		twin := func(name string) func(*wire.Conn) {
			return launchtest.FakeHelper("same", func(c *wire.Conn, m wire.Message) bool {
				mu.Lock()
				defer mu.Unlock()
				switch m := m.(type) {
				case *wire.WriteMark:
					marks[name] = m.Mark // no marks are read before all are written
					c.Send(&wire.MarkWritten{})
				case *wire.ReadMarks:
					c.Send(&wire.MarksRead{Marks: []string{marks[name], marks[test.finds[name]], "junk"}})
				default:
					return false
				}
				return true
			})
		}
		r := launchtest.NewRun(2, `echo started`, "x", "z")
		r.Helpers.Fakes = map[string]func(*wire.Conn){"x": twin("x"), "z": twin("z")}
		_, err := r.Do(t)
		var failed *usererr.Error
		if want := "x and z both report machine ID same, but are different machines; " + test.want; !errors.As(err, &failed) || failed.Text != want || failed.Code != 125 {
			t.Errorf("%s: %v, want %q", test.name, err, want)
		}
		r = launchtest.NewRun(1, `echo $MPIEXEC_HOST`, "x", "z", "a")
		r.Req.SkipUnreachable, r.Req.Nodes[2].Slots = true, 2
		r.Req.Apps[0].Hosts = []string{"a"}
		r.Helpers.Fakes = map[string]func(*wire.Conn){"x": twin("x"), "z": twin("z")}
		if result, err := r.Do(t); err != nil || result.Code != 0 || r.Out.String() != "a\n" || !strings.Contains(r.Err.String(), test.want+"\n") {
			t.Errorf("%s, where they may be left out: code %d, %v, %q, stderr %q", test.name, result.Code, err, r.Out.String(), r.Err.String())
		}
	}
}
