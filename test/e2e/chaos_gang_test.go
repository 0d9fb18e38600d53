//go:build linux

package e2e

import (
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An ownPIDs returns the gang's own processes on a host for whose arguments is returns true.
type ownPIDs func(is func(args []string) bool) []int

// A gangHit happens to a gang that waits for its slice.
type gangHit struct {
	options []string
	hit     func(t *testing.T, v *taggedJob, host string, own ownPIDs)
	code    int
	cause   string // HOST stands for the host that is hit
	killed  bool
}

// killOwn kills a process that the gang has on the host.
func killOwn(name string, kinds ...func([]string) bool) func(*testing.T, *taggedJob, string, ownPIDs) {
	return func(t *testing.T, _ *taggedJob, _ string, own ownPIDs) {
		var pids []int
		for _, is := range kinds {
			pids = append(pids, own(is)...)
		}
		if len(pids) == 0 {
			t.Fatalf("there is no %s", name)
		}
		for _, pid := range pids { // the death of one may end the next
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// requestLast sends requests to the youngest job on the host.
func requestLast(options ...string) func(*testing.T, *taggedJob, string, ownPIDs) {
	return func(t *testing.T, v *taggedJob, host string, _ ownPIDs) {
		for _, option := range options {
			if r := v.cluster.sendControlRequest(t, option, "last", host); r.code != 0 {
				t.Errorf("%s: exit %d, %s", option, r.code, r.err)
			}
		}
	}
}

// signalGang sends a signal to the gang's mpiexec.
func signalGang(sig syscall.Signal) func(*testing.T, *taggedJob, string, ownPIDs) {
	return func(_ *testing.T, v *taggedJob, _ string, _ ownPIDs) { v.cmd.Process.Signal(sig) }
}

var gangHits = []gangHit{
	{nil, killOwn("helper", isHelperArgs), 125, "lost contact with HOST", true},
	{nil, killOwn("reaper", isReaperArgs), 125, "lost contact with HOST", true},
	{nil, killOwn("session", isSession), 125, "lost contact with HOST", true},
	// Not helper and reaper: then nobody is left on the host to end children of ranks that called setsid.
	{nil, killOwn("helper or session", isHelperArgs, isSession), 125, "lost contact with HOST", true},
	{nil, killOwn("reaper or session", isReaperArgs, isSession), 125, "lost contact with HOST", true},
	{nil, killOwn("rank", isRank), 137, "rank ", false},
	{nil, signalGang(syscall.SIGKILL), 137, "", true},
	{nil, signalGang(syscall.SIGTERM), 143, "", false},
	{nil, requestLast("--end"), 143, "with --end", false},
	{nil, requestLast("--suspend", "--end"), 143, "with --end", false},
	{nil, requestLast("--suspend", "--resume-job", "--end"), 143, "with --end", false},
	{[]string{"-timeout", "4"}, func(*testing.T, *taggedJob, string, ownPIDs) {}, 124, "the job ran longer than -timeout 4s", false},
}

// chaosGangKinds are what happens to a gang while it is stopped. They are thrown by make chaos alone.
var chaosGangKinds = []chaosKind{{"gang, struck", gangCase}}

// gangCase is a gang that is hit while it waits for its slice. The gang beside it then shares its CPUs with nobody, and is never
// stopped again.
func gangCase(d *rand.Rand) chaosCase {
	host, _ := pickHost(d)
	h, p, pause := pick(d, gangHits...), pick(d, shellProgram, spinProgram), time.Duration(d.IntN(1500))*time.Millisecond
	var beside *taggedJob
	known := make(map[int]bool) // the processes beside it on the host
	m := runningCase(p, h.code, strings.Replace(h.cause, "HOST", host, 1), func(t *testing.T, v *taggedJob) {
		if !poll(goneTimeout, func() bool { return isStopped(v.statesOn(t, host)) }) {
			t.Fatalf("the gang is never stopped on %s: %s\n%s", host, v.statesOn(t, host), &v.err)
		}
		<-time.After(pause)
		h.hit(t, v, host, func(is func([]string) bool) []int {
			return slices.DeleteFunc(v.findOn(t, host, is), func(pid int) bool { return known[pid] })
		})
	})
	options := []string{"--gang", "--mem-per-rank", "1M", "--kill-grace", "1"}
	m.setUp = func(t *testing.T, b *testCluster) {
		b.useSlices(t, `slice = "1s"`, "n1", "n2")
		beside = startTagged(t, b, shellProgram, false, options...)
		for _, p := range b.processes(t, host) {
			known[p.PID] = true
		}
	}
	m.options, m.killed = slices.Concat(options, h.options), h.killed
	m.otherLines = []string{"gang: sharing CPUs of n[1-2] with 1 other job", "suspended by ", "the job continues; it was suspended for "}
	m.after = func(t *testing.T, v *taggedJob, _ result) {
		if !poll(goneTimeout, func() bool { return !strings.Contains(beside.statesOn(t, "n1")+beside.statesOn(t, "n2"), "T") }) {
			t.Errorf("the gang beside it does not go on: %s", &beside.err)
		}
		for range 30 { // three slices
			if s := beside.statesOn(t, "n1") + beside.statesOn(t, "n2"); strings.Contains(s, "T") || s == "" {
				t.Errorf("the gang beside it is alone, and its processes are %q: %s", s, &beside.err)
				break
			}
			<-time.After(100 * time.Millisecond)
		}
		beside.cmd.Process.Signal(syscall.SIGTERM)
		if r := beside.wait(t); r.code != 143 {
			t.Errorf("the gang beside it: exit %d, %s", r.code, r.err)
		}
		for _, host := range []string{"n1", "n2"} {
			v.cluster.runOn(t, host, "umount", "/etc")
		}
	}
	return m
}

// statesOn returns the states of the job's processes on a host, such as SSTT.
func (v *taggedJob) statesOn(t *testing.T, host string) string {
	t.Helper()
	return statesOf(v.findOn(t, host, func(args []string) bool { return strings.Contains(strings.Join(args, " "), v.tag) }))
}
