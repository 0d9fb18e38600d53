//go:build linux

package names

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"remshell/launch/launchtest"
	"remshell/pmiserver/pmix"
	"remshell/wire"
)

// newScopedRun returns a job of one rank whose names are kept on the host names, in the ledger of dir.
func newScopedRun(dir, script string, scope Scope) *launchtest.Run {
	r := launchtest.NewPMIRun(1, script, nil, "a")
	r.Settings = []wire.Setting{&scope}
	r.Req.Queue.LedgerDir = dir
	return r
}

// A name that one job has published is found by another job of the user as long as the first one runs.
func TestNamesOfSeveralJobs(t *testing.T) {
	dir := t.TempDir()
	scope := Scope{Host: "names"}
	newScopedRun(dir, "0: lookup svc; 0: publish svc p; 0: lookup svc; 0: publish svc q; 0: unpublish svc; 0: lookup svc; 0: publish svc r", scope).ExpectLines(t,
		"lookup svc failed: service_not_found", "publish svc", "lookup svc: p", "publish svc failed: key_already_present", "unpublish svc",
		"lookup svc failed: service_not_found", "publish svc")
	newScopedRun(dir, "0: lookup svc", scope).ExpectLines(t, "lookup svc failed: service_not_found")

	server := newScopedRun(dir, "0: publish svc p; 0: await asked; 0: publish answer a; hang", scope)
	var serving sync.WaitGroup
	serving.Go(func() { server.Do(t) })
	newScopedRun(dir, "0: await svc; 0: publish svc q; 0: unpublish svc; 0: publish asked x; 0: await answer", scope).ExpectLines(t,
		"await svc: p", "publish svc failed: key_already_present", "unpublish svc failed: service_not_found", "publish asked", "await answer: a")
	newScopedRun(dir, "0: lookup svc; 0: lookup answer; 0: lookup asked", scope).ExpectLines(t, "lookup svc: p", "lookup answer: a", "lookup asked failed: service_not_found")
	launchtest.NewPMIRun(1, "0: lookup svc", nil, "a").ExpectLines(t, "lookup svc failed: service_not_found")
	server.Signals <- syscall.SIGTERM
	serving.Wait()
	newScopedRun(dir, "0: lookup svc", scope).ExpectLines(t, "lookup svc failed: service_not_found")
}

// If two jobs publish the same name at the same time, one succeeds: here a hundred times.
func TestNameOfTwoJobs(t *testing.T) {
	dir := t.TempDir()
	var script strings.Builder
	for i := range 100 {
		fmt.Fprintf(&script, "publish svc%d p; ", i)
	}
	var runs [2]*launchtest.Run
	var ended [2]chan bool
	var over [2]<-chan struct{}
	for i := range runs {
		runs[i], ended[i] = newScopedRun(dir, script.String()+"say over; hang", Scope{Host: "names"}), make(chan bool)
		over[i] = runs[i].Out.Shows("over\n")
		go func() {
			defer close(ended[i])
			runs[i].Do(t)
		}()
	}
	for i := range runs {
		select {
		case <-over[i]:
		case <-ended[i]: // too early
		}
	}
	for i := range runs {
		runs[i].Signals <- syscall.SIGTERM
		<-ended[i]
	}
	both := runs[0].Out.String() + runs[1].Out.String()
	for i := range 100 {
		if won, lost := strings.Count(both, fmt.Sprintf("publish svc%d\n", i)), strings.Count(both, fmt.Sprintf("publish svc%d failed: key_already_present\n", i)); won != 1 || lost != 1 {
			t.Errorf("svc%d: published %d times, refused %d times", i, won, lost)
		}
	}
}

// A host that cannot be reached, or is lost, is reported once. Requests then fail, also those that wait.
func TestPlaceThatIsLost(t *testing.T) {
	r := newScopedRun(t.TempDir(), "0: publish svc p; 0: lookup svc", Scope{Host: "nowhere"})
	result, err := r.Do(t)
	if got := r.Err.String(); err != nil || result.Code != 0 || strings.Count(got, "cannot keep the published names on nowhere: no such host; ranks can no longer") != 1 {
		t.Errorf("exit %d, %v, %q", result.Code, err, got)
	}
	if got := r.Out.String(); strings.Count(got, " failed: ") != 2 {
		t.Errorf("stdout %q", got)
	}
	r = newScopedRun(t.TempDir(), "0: lookup svc; 0: lookup svc", Scope{Host: "names"})
	r.Helpers.Fakes = map[string]func(*wire.Conn){"names": launchtest.FakeHelper("names", func(c *wire.Conn, m wire.Message) bool {
		if _, is := m.(*LedgerName); is {
			c.Close()
		}
		return true
	})}
	result, err = r.Do(t)
	if got := r.Err.String(); err != nil || result.Code != 0 || strings.Count(got, "mpiexec lost its helper on names, which keeps the published names: ") != 1 {
		t.Errorf("exit %d, %v, %q", result.Code, err, got)
	}
	if got := r.Out.String(); strings.Count(got, " failed: ") != 2 {
		t.Errorf("stdout %q", got)
	}
}

// A name of another user is reported, with its bytes escaped. Names of PMIx servers are not.
func TestNameOfAnotherUserIsReported(t *testing.T) {
	if internalPrefix != pmix.NamePrefix {
		t.Errorf("the prefix %q", internalPrefix)
	}
	r := newScopedRun(t.TempDir(), "0: lookup svc; 0: lookup svc; 0: lookup remshell-job-1", Scope{Host: "names", AnyUser: true})
	r.Helpers.Fakes = map[string]func(*wire.Conn){"names": launchtest.FakeHelper("names", func(c *wire.Conn, m wire.Message) bool {
		if m, is := m.(*LedgerName); is {
			if !m.AnyUser {
				t.Error("names of this user only")
			}
			c.Send(&LedgerNameReply{ID: m.ID, OK: true, Port: "p\x1b[2J", User: "eve\x1b"})
		}
		return true
	})}
	if result, err := r.Do(t); err != nil || result.Code != 0 {
		t.Errorf("exit %d, %v", result.Code, err)
	}
	if got := r.Err.String(); strings.Count(got, "user eve\\x1b has published the name svc") != 1 || strings.Contains(got, "remshell-job") || strings.Contains(got, "\x1b") {
		t.Errorf("%q", got)
	}
}

func TestNewScope(t *testing.T) {
	for _, test := range []struct {
		o    Options
		want string
	}{
		{Options{}, "none"},
		{Options{Names: "job"}, "none"},
		{Options{Names: "user"}, "{AnyUser:false Host:}"},
		{Options{Names: "all"}, "{AnyUser:true Host:}"},
		{Options{NameServer: "n1"}, "{AnyUser:false Host:n1}"},
		{Options{NameServer: "n1", Names: "all"}, "{AnyUser:true Host:n1}"},
		{Options{NameServer: "n1", Names: "job"}, "-nameserver cannot be used with --names job, which keeps names within one job"},
	} {
		scope, err := newScope(test.o)
		got := "none"
		if err != nil {
			got = err.Error()
		} else if scope != nil {
			got = fmt.Sprintf("%+v", *scope)
		}
		if got != test.want {
			t.Errorf("%+v: %s, want %s", test.o, got, test.want)
		}
	}
}
