//go:build linux

package launchtest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"remshell/helper/probe"
	"remshell/job"
	"remshell/launch"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/launch/stdio"
	"remshell/trace"
	"remshell/wire"
)

// A Run is a job that a test runs.
type Run struct {
	Helpers   Dialer
	Req       job.Request
	In        io.Reader
	Signals   chan os.Signal
	Out, Err  Buffer
	Suspended chan struct{}
	Settings  []wire.Setting // of features
	Stdout    io.Writer      // replaces Out, if set

	Dialer     node.HelperDialer // replaces Helpers, if set
	OnPlan     func()            // called with the plan; may be nil
	ReplyLimit time.Duration     // timeout for replies of helpers; 0: 10 s
	Localhost  string            // the node that is the launching machine under another name

	Steps *trace.Recorder // nil: no steps are recorded

}

// suspend takes the place of stopping mpiexec (SIGSTOP). It returns when the test continues the job.
func (r *Run) suspend() {
	r.Suspended <- struct{}{}
	<-r.Suspended
}

func (r *Run) stdout() io.Writer {
	if r.Stdout != nil {
		return r.Stdout
	}
	return &r.Out
}

// NewRun returns a job of n ranks that run a shell script on nodes. A node has one slot, or as many as
// its name says ("a:2").
func NewRun(n int, script string, nodes ...string) *Run {
	r := &Run{Signals: make(chan os.Signal, 4), Suspended: make(chan struct{})}
	r.Req = job.Request{
		Job:        "test",
		Apps:       []job.App{{N: n, Argv: []string{"/bin/sh", "-c", script}, Dir: "/"}},
		TimeLimits: job.TimeLimits{Grace: 300 * time.Millisecond},
	}
	for i, name := range nodes {
		name, slots, _ := strings.Cut(name, ":")
		def := job.NodeDef{ID: i, Name: name, Slots: 1}
		if slots != "" {
			def.Slots, _ = strconv.Atoi(slots)
		}
		r.Req.Nodes = append(r.Req.Nodes, def)
	}
	return r
}

// Env returns the launch.Env of the job.
func (r *Run) Env() launch.Env {
	out := stdio.Stdout(r.stdout())
	errs := stdio.Stderr(&r.Err)
	var dialer node.HelperDialer = &r.Helpers
	if r.Dialer != nil {
		dialer = r.Dialer
	}
	return launch.Env{In: r.In, Out: out, Err: errs, Env: reserve.Env{
		Connector: node.Connector{Dialer: dialer, GreetTimeout: cmp.Or(r.ReplyLimit, 5*time.Minute), Trace: r.Steps}, RankOptions: reserve.RankOptions{Umask: -1, Settings: r.Settings},
		FindHosts: r.find, Localhost: r.identity, ProbeTimeout: r.ReplyLimit, Signals: r.Signals, Suspend: r.suspend,
		OnPlan: func(job.Snapshot, job.Plan) {
			if r.OnPlan != nil {
				r.OnPlan()
			}
		},
		Report: func(text string) { fmt.Fprintln(errs, text) }}}
}

// identity returns the machine identity that the helper on the launching machine reports.
func (r *Run) identity() string {
	here, _ := probe.Node(machine{os.DirFS("/"), r.Localhost}, nil)
	return here.Identity
}

// Do runs the job to its end. The test fails if that takes more than a minute.
func (r *Run) Do(t *testing.T) (job.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r.Req.Queue.LedgerDir = cmp.Or(r.Req.Queue.LedgerDir, t.TempDir())
	env := r.Env()
	result, err := launch.Run(ctx, r.Req, env)
	if err != nil {
		env.Err.Close()
	}
	<-env.Err.Done()
	if ctx.Err() != nil {
		t.Fatalf("the job did not end; stdout %q, stderr %q", r.Out.String(), r.Err.String())
	}
	return result, err
}

// Report returns the part of the job's stderr in which mpiexec reports the end of the job.
func (r *Run) Report() string {
	_, report, _ := strings.Cut(r.Err.String(), "mpiexec: ")
	return report
}

// NewPMIRun returns a job of n ranks that use PMI as script says (pmitest.RunScript). scripts has the
// scripts of spawned ranks, by name.
func NewPMIRun(n int, script string, scripts map[string]string, nodes ...string) *Run {
	r := NewRun(n, "", nodes...)
	r.Req.Apps[0].Argv = []string{"/proc/self/exe", script}
	r.Req.BaseEnv.Set = []string{PMIMark + "=1", "TALK=/proc/self/exe"}
	for name, script := range scripts {
		r.Req.BaseEnv.Set = append(r.Req.BaseEnv.Set, "TALK_"+name+"="+script)
	}
	return r
}

// ExpectLines runs a job, which must succeed. It checks that the ranks print the lines in want, in any
// order.
func (r *Run) ExpectLines(t *testing.T, want ...string) {
	t.Helper()
	result, err := r.Do(t)
	got := strings.Split(strings.TrimSuffix(r.Out.String(), "\n"), "\n")
	slices.Sort(got)
	slices.Sort(want)
	if err != nil || result.Code != 0 || r.Err.String() != "" || !slices.Equal(got, want) {
		t.Errorf("code %d, %v, stderr %q\n got %q\nwant %q", result.Code, err, r.Err.String(), got, want)
	}
}

// find returns the hosts of a list whose items are separated by commas.
func (r *Run) find(list string) (defs []job.NodeDef, err error) {
	for name := range strings.SplitSeq(list, ",") {
		defs = append(defs, job.NodeDef{Name: name, Host: name, Slots: 2, Local: name == "here"})
	}
	return defs, nil
}
