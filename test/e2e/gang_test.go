//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"remshell/proc"
	"remshell/tools/testbed"
)

// useSlices makes root of the hosts write a cluster file with these terms for gangs.
func (b *testCluster) useSlices(t *testing.T, gang string, hosts ...string) {
	t.Helper()
	b.requireNamespaces(t)
	for _, host := range hosts {
		b.runOn(t, host, "sh", "-ec", `d=$(mktemp -d); cp -a /etc/. "$d"; mkdir -p "$d/remshell"; chmod 755 "$d"; mount --bind "$d" /etc
printf '[gang]\n%s\n[[node]]\nname = "n1"\n' "$1" >/etc/remshell/cluster.toml`, "sh", gang)
	}
}

// A gangJob is a job with --gang whose ranks spin.
type gangJob struct {
	*runningJob
	tag string
}

// startGang starts a job with --gang, each rank of which spins.
func (b *testCluster) startGang(t *testing.T, tag string, args ...string) gangJob {
	t.Helper()
	args = append([]string{"--gang", "--kill-grace", "1", "--mem-per-rank", "1M"}, args...)
	return gangJob{b.startMpiexec(t, mpiexecCall{args: append(args, "sh", "-c", "echo ready; while :; do :; done", tag)}), tag}
}

// states returns the states of the job's ranks on a host, such as RR or TT.
func (b *testCluster) states(t *testing.T, host string, j gangJob) (states string) {
	t.Helper()
	for _, p := range b.processes(t, host) {
		if slices.Contains(p.Args, j.tag) && p.Args[0] == "sh" {
			if info, found := proc.ReadInfo(p.PID); found {
				states += string(info.State)
			}
		}
	}
	return states
}

// isStopped reports whether the job has ranks with these states, and all are stopped.
func isStopped(states string) bool { return states != "" && strings.Trim(states, "T") == "" }

// awaitStopped waits until all ranks of a job on a host are stopped, or until all run.
func (b *testCluster) awaitStopped(t *testing.T, host string, j gangJob, stopped bool) {
	t.Helper()
	if !poll(goneTimeout, func() bool {
		s := b.states(t, host, j)
		return s != "" && (stopped && isStopped(s) || !stopped && !strings.Contains(s, "T"))
	}) {
		t.Fatalf("%s on %s: %s, waited for stopped = %v\n%s", j.tag, host, b.states(t, host, j), stopped, j.err.String())
	}
}

// Two gangs on two hosts run in turns. Never do both run on one host, but for the moments around a boundary. Alone, neither is
// stopped.
func TestGangsTakeTurns(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.useSlices(t, "slice = \"2s\"", "n1", "n2")
	place := filepath.Join(t.TempDir(), "ranks")
	if err := os.WriteFile(place, []byte("rank 0=n1 slot=0\nrank 1=n2 slot=1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"-n", "2", "-host", "n1,n2", "-rankfile", place}
	first := b.startGang(t, "gang-a", args...)
	first.awaitOut(t, "ready", 2)
	for range 20 { // a boundary passes
		if s := b.states(t, "n1", first) + b.states(t, "n2", first); strings.Contains(s, "T") {
			t.Fatalf("alone: %s", s)
		}
		<-time.After(150 * time.Millisecond)
	}
	if r := b.runMpiexec(t, "-host", "n1,n2", "-rankfile", place, "-n", "2", "true"); r.code != 125 || !strings.Contains(r.err, "CPU 0 of n1 is in use by another job") {
		t.Errorf("a job without --gang: exit %d, %q", r.code, r.err)
	}
	second := b.startGang(t, "gang-b", args...)
	second.awaitErr(t, "gang: sharing CPUs of n[1-2] with 1 other job, in turns of 2s", 1)
	first.awaitErr(t, "gang: sharing CPUs of n[1-2] with 1 other job, in turns of 2s", 1)
	second.awaitOut(t, "ready", 2)
	samples, both, stopped := 0, 0, make(map[string]int)
	for end := time.Now().Add(32 * time.Second); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
		if since := time.Duration(time.Now().UnixNano()) % (2 * time.Second); since < 300*time.Millisecond {
			continue
		}
		samples++
		for _, host := range []string{"n1", "n2"} {
			s, u := b.states(t, host, first), b.states(t, host, second)
			if !isStopped(s) && !isStopped(u) {
				both++
			}
			for j, s := range map[gangJob]string{first: s, second: u} {
				if isStopped(s) {
					stopped[j.tag+" "+host]++
				}
			}
		}
	}
	t.Logf("%d samples, both run in %d, stopped in %v", samples, both, stopped)
	if both*20 > samples {
		t.Errorf("both run on a host in %d of %d samples", both, samples)
	}
	for _, where := range []string{"gang-a n1", "gang-a n2", "gang-b n1", "gang-b n2"} {
		if n := stopped[where]; n*10 < 3*samples || n*10 > 7*samples {
			t.Errorf("%s is stopped in %d of %d samples", where, n, samples)
		}
	}
	first.cmd.Process.Signal(syscall.SIGTERM)
	if r := first.wait(t); r.code != 143 {
		t.Errorf("the first: exit %d, %q", r.code, r.err)
	}
	b.awaitStopped(t, "n1", second, false)
	<-time.After(2500 * time.Millisecond)
	if s := b.states(t, "n1", second); strings.Contains(s, "T") {
		t.Errorf("alone again: %s", s)
	}
	second.cmd.Process.Signal(syscall.SIGTERM)
	second.wait(t)
	b.checkNothingLeft(t, "n1", "n2")
}

// A stopped gang never stays when its helper, its reaper or its mpiexec is killed, and leaves its turns to the others.
func TestAKilledGangLeavesNoStoppedProcess(t *testing.T) {
	t.Parallel()
	for _, victim := range []string{"helper", "reaper", "mpiexec"} {
		t.Run(victim, func(t *testing.T) {
			t.Parallel()
			b := newTestCluster(t, testbed.Options{Hosts: 1})
			b.useSlices(t, "slice = \"2s\"", "n1")
			cpus := fmt.Sprint(runtime.NumCPU())
			first := b.startGang(t, "gang-a", "-host", "n1", "-n", cpus)
			first.awaitOut(t, "ready", 1)
			var known []int
			for _, p := range b.helperProcesses(t, "n1") {
				known = append(known, p.PID)
			}
			second := b.startGang(t, "gang-b", "-host", "n1", "-n", cpus)
			second.awaitErr(t, "gang: sharing", 1)
			b.awaitStopped(t, "n1", second, false)
			b.awaitStopped(t, "n1", second, true)
			switch victim {
			case "mpiexec":
				second.cmd.Process.Kill()
			default:
				var pids []int
				for _, p := range b.helperProcesses(t, "n1") {
					if !slices.Contains(known, p.PID) && isReaperArgs(p.Args) == (victim == "reaper") {
						pids = append(pids, p.PID)
					}
				}
				signalPIDs(t, syscall.SIGKILL, victim, pids)
			}
			if !poll(goneTimeout, func() bool { return b.states(t, "n1", second) == "" }) {
				t.Errorf("ranks are left: %s", b.states(t, "n1", second))
			}
			b.awaitStopped(t, "n1", first, false)
			first.cmd.Process.Signal(syscall.SIGTERM)
			first.wait(t)
			second.wait(t)
			b.checkNothingLeft(t, "n1")
		})
	}
}
