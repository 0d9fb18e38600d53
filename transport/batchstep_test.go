package transport

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/batch"
	"remshell/sshx"
)

// fakeStep is a program in place of srun: it starts a shell for each host of -w, each with a home of its own, and copies
// its input to all.
const fakeStep = `
echo "$*" >>$T/calls
[ ! -e $T/refuse ] || { cat $T/refuse >&2; rm $T/refuse; exit 1; }
while [ $# -gt 1 ]; do if [ "$1" = -w ]; then hosts=$2; fi; shift; done
dir=$(mktemp -d $T/step-XXXXXX)
IFS=,
for h in $hosts; do
	mkfifo $dir/$h
	mkdir -p $T/$h
	SLURMD_NODENAME=$h HOME=$T/$h XDG_CACHE_HOME= /bin/sh <$dir/$h &
	set -- "$@" $dir/$h
done
shift
unset IFS
tee -p "$@" >/dev/null
wait
`

// testStep returns a OneStep with that program, and the directory that it uses.
func testStep(t *testing.T) (*OneStep, string) {
	t.Helper()
	dir := t.TempDir()
	each := testStarter(t, "T="+dir+"\n"+fakeStep)
	each.Pacer, each.Warn = new(sshx.Pacer), func(text string) { t.Error(text) }
	return &OneStep{PerHost: each}, dir
}

// reached dials hosts and returns their results in the hosts' order. Streams are closed with the test.
func reached(t *testing.T, transport Transport, hosts ...Host) []Result {
	t.Helper()
	results := make([]Result, len(hosts))
	for r := range transport.Dial(longContext(t), hosts) {
		results[r.Index] = r
		if r.Err == nil {
			guarded(t, r.Stream)
			t.Cleanup(func() { r.Stream.Close() })
		}
	}
	return results
}

func calls(t *testing.T, dir string) (with []string) {
	t.Helper()
	for line := range strings.Lines(string(must(os.ReadFile(filepath.Join(dir, "calls"))))) {
		_, host, _ := strings.Cut(line, "-w ")
		host, _, _ = strings.Cut(host, " ")
		with = append(with, host)
	}
	slices.Sort(with)
	return with
}

// A host without the binary gets a call of its own, and has the binary then: the next time one call starts
// all helpers. The helpers' streams are separate, and the step ends with the last of them.
func TestOneStep(t *testing.T) {
	o, dir := testStep(t)
	hosts := []Host{{Name: "n1"}, {Name: "n2"}, {Name: "n3"}}
	for _, r := range reached(t, o, hosts...) {
		check(t, r.Err)
		hello(t, r.Stream, o.PerHost.Self.Build)
		if source := r.Stream.(*Conn).Source(); source != "sent" {
			t.Errorf("by itself: the program is %s", source)
		}
		r.Stream.Close()
	}
	if got := strings.Join(calls(t, dir), " "); got != "n1 n1,n2,n3 n2 n3" {
		t.Errorf("called with %s", got)
	}
	os.Remove(filepath.Join(dir, "calls"))
	results := reached(t, o, hosts...)
	if got := strings.Join(calls(t, dir), " "); got != "n1,n2,n3" {
		t.Errorf("then called with %s", got)
	}
	var step *localCommand
	for i, r := range results {
		check(t, r.Err)
		in := bufio.NewReader(r.Stream)
		if line, err := in.ReadString('\n'); line != "called "+hosts[i].Name+"\n" {
			t.Errorf("%s: %q, %v", hosts[i].Name, line, err)
		}
		conn := r.Stream.(*Conn)
		if conn.Build() != o.PerHost.Self.Build || conn.Source() != "found" || conn.LocalAddr() == nil {
			t.Errorf("%s: build %s, source %s, address %v", hosts[i].Name, conn.Build(), conn.Source(), conn.LocalAddr())
		}
		step = conn.link.(*stepLink).starter.program
		echoes(t, struct {
			io.Reader
			io.Writer
		}{in, r.Stream})
		r.Stream.Close()
		if i < 2 && step.waitFor(0) {
			t.Error("the step is over before its last stream is closed")
		}
	}
	if !step.waitFor(5 * time.Minute) {
		t.Error("the step lives on")
	}
}

// warm puts the binary into the caches of hosts.
func warm(t *testing.T, o *OneStep, dir string, hosts ...Host) {
	t.Helper()
	for _, r := range reached(t, o, hosts...) {
		check(t, r.Err)
		r.Stream.Close()
	}
	check(t, os.Remove(filepath.Join(dir, "calls")))
}

// A failure on one host is that host's error; a failure of the step is the error of all. If the batch
// system is busy, it is called again.
func TestOneStepFails(t *testing.T) {
	o, dir := testStep(t)
	hosts := []Host{{Name: "n1"}, {Name: "n2"}}
	warm(t, o, dir, hosts...)
	refuse := func(words string) { check(t, os.WriteFile(filepath.Join(dir, "refuse"), []byte(words), 0o600)) }

	o.PerHost.Env = append(o.PerHost.Env, "UNABLE=n2")
	results := reached(t, o, hosts...)
	check(t, results[0].Err)
	var e *Error
	if !errors.As(results[1].Err, &e) || !strings.HasPrefix(e.Reason(), "helper: cannot connect to this host on port ") || !strings.HasSuffix(e.Why, " (connection refused)") || e.Remedy != "use -launcher slurm-each" {
		t.Errorf("a host that cannot call: %v", results[1].Err)
	}
	o.PerHost.Env = o.PerHost.Env[:len(o.PerHost.Env)-1]

	refuse("srun: error: Unable to create step for job 1: Requested node configuration is not available\n")
	for i, r := range reached(t, o, hosts...) {
		if want := hosts[i].Name + ": srun: Unable to create step for job 1: Requested node configuration is not available"; r.Err == nil || r.Err.Error() != want {
			t.Errorf("%v, want %s", r.Err, want)
		}
	}
	refuse("srun: error: Unable to confirm allocation for job 1: Socket timed out on send/recv operation\n")
	for _, r := range reached(t, o, hosts...) {
		check(t, r.Err)
	}
	find := o.PerHost.StarterCall
	o.PerHost.StarterCall = func(h Host) (call batch.Call, err error) {
		if h.Name == "n9" {
			return call, NotInJob(h.Name, "slurm", "12")
		}
		return find(h)
	}
	results = reached(t, o, Host{Name: "n9"}, hosts[0], hosts[1])
	if results[0].Err == nil || results[0].Err.Error() != "n9: config: the host is not part of Slurm job 12" || results[1].Err != nil || results[2].Err != nil {
		t.Errorf("a host of somebody else: %v, %v, %v", results[0].Err, results[1].Err, results[2].Err)
	}
}

// Output of a step does not extend its time limits: neither that of its shells nor that of helpers that do
// not connect.
func TestOneStepDrips(t *testing.T) {
	const drip = `while printf '\036remshell n1 run x\n'; do sleep 0.05; done`
	for what, test := range map[string]struct{ program, says string }{
		"shells":  {"printf '\\036remshell n2 run x\\n'; " + strings.ReplaceAll(drip, "n1", "n9"), "connect: the host did not answer within 0.5 s"},
		"helpers": {"printf '\\036remshell n2 run x\\n'; " + drip, "helper: the helper did not connect to this host on port "},
	} {
		o := &OneStep{PerHost: testStarter(t, test.program)}
		o.PerHost.Pacer = new(sshx.Pacer)
		steps, _ := o.groupHosts([]Host{{Name: "n1"}, {Name: "n2"}}, nil)
		results := make(chan Result, 2)
		s := newStep(o, steps[0], results, func(stepHost) { t.Error(what, "a host is reached by itself") })
		s.timeouts = stepTimeouts{shell: 500 * time.Millisecond, others: 500 * time.Millisecond}
		if what == "helpers" {
			s.timeouts.shell = 5 * time.Minute
		}
		s.dial(longContext(t))
		var e *Error
		if r := <-results; !errors.As(r.Err, &e) || !strings.HasPrefix(e.Reason(), test.says) {
			t.Errorf("%s: %v, want %s", what, r.Err, test.says)
		}
	}
}

// If the step is killed, the starter's own message is why each of its streams ended.
func TestOneStepIsKilled(t *testing.T) {
	o, dir := testStep(t)
	hosts := []Host{{Name: "n1"}, {Name: "n2"}}
	warm(t, o, dir, hosts...)
	results := reached(t, o, hosts...)
	for i, r := range results {
		check(t, r.Err)
		conn := r.Stream.(*Conn)
		if i == 0 {
			check(t, conn.link.(*stepLink).starter.program.cmd.Process.Kill())
		}
		io.Copy(io.Discard, conn)
		if got := conn.Why(); got != "srun: killed by signal 9" {
			t.Errorf("%s ended: %q", hosts[i].Name, got)
		}
	}
}

// Hosts of one part of a job share a step. A host that is alone, or whose binary is elsewhere, gets a call
// of its own.
func TestGroupHosts(t *testing.T) {
	o, _ := testStep(t)
	part := map[string]int{"a1": 0, "a2": 0, "b1": 1, "c1": 2, "c2": 2, "c3": 2}
	o.PerHost.StarterCall = func(h Host) (call batch.Call, err error) { call.Host, call.Part = h.Name, part[h.Name]; return }
	deal := func() string {
		var hosts []Host
		for _, name := range []string{"a1", "b1", "c1", "a2", "c2", "c3"} {
			hosts = append(hosts, Host{Name: name, Helper: map[bool]string{true: "/opt/mpiexec"}[name == "c3"]})
		}
		text := ""
		steps, single := o.groupHosts(hosts, nil)
		for _, members := range append(steps, single) {
			for _, m := range members {
				text += m.host.Name + " "
			}
			text += "| "
		}
		return text
	}
	if got := deal(); got != "a1 a2 | c1 c2 | c3 b1 | " {
		t.Errorf("dealt as %s", got)
	}
	o.PerHost.Self = o.PerHost.Self.WithDelivery("always")
	if got := deal(); got != "a1 b1 c1 a2 c2 c3 | " {
		t.Errorf("with --ship-helper dealt as %s", got)
	}
}

// parseStepLine accepts the lines of the protocol only.
func TestParseStepLine(t *testing.T) {
	for line, want := range map[string]stepLine{
		"\x1eremshell n1 run cache\n":                      {"n1", "run", "cache"},
		"\x1eremshell n1 fail call connection refused\r\n": {"n1", "fail", "call connection refused"},
		"\x1eremshell n1\n":                                {},
		"\x1eremshell n1 need\n":                           {},
		"n1 run cache\n":                                   {},
		"\x1eremshell  run \n":                             {},
	} {
		if got, ours := parseStepLine(line); ours != (want.host != "") || ours && got != want {
			t.Errorf("%q: %+v, %t", line, got, ours)
		}
	}
}
