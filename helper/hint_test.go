//go:build linux

package helper

import (
	"math"
	"os/exec"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
	"remshell/proc"
)

// A hint needs a denial count that has risen, and a rank that the helper has not killed. An exit code above 128 counts
// as the signal that it stands for.
func TestHints(t *testing.T) {
	root := fstest.MapFS{"proc/self/cgroup": {Data: []byte("0::/job\n")}, "sys/fs/cgroup/job/memory.events": {Data: []byte("oom_kill 3\n")},
		"sys/fs/cgroup/job/pids.events": {Data: []byte("max 3\n")}, "sys/fs/cgroup/job/pids.max": {Data: []byte("20\n")},
		"proc/meminfo": {Data: []byte("MemTotal: 8192 kB\n")}, "proc/7/comm": {Data: []byte("earlyoom\n")}}
	const (
		memory    = "out of memory: the kernel has killed a process in the job's control group"
		processes = "out of processes: the kernel refused to start more processes or threads in the job's control group, whose limit is 20 (pids.max, TasksMax of systemd)"
		daemon    = "the ranks used up to 4 of the 8 MiB of memory on this host, and earlyoom kills processes if there is too little memory; see the log of earlyoom"
	)
	before, unknown := proc.Denials{CgroupKills: 2, MachineKills: -1, Forks: 2}, proc.Denials{CgroupKills: -1, MachineKills: -1, Forks: -1}
	now := proc.Denials{CgroupKills: 3, MachineKills: -1, Forks: 3}
	for _, test := range []struct {
		name   string
		before proc.Denials
		exit   job.Exit
		want   string
	}{
		{"raised", before, job.Exit{Signal: 9}, memory},
		{"a shell reports it", before, job.Exit{Code: 137}, memory},
		{"not raised", now, job.Exit{Signal: 9}, ""},
		{"unknown", unknown, job.Exit{Signal: 9}, ""},
		{"killed by us", before, job.Exit{Signal: 9, ToldToEnd: true}, ""},
		{"another signal", before, job.Exit{Signal: 11}, ""},
		{"no fork", before, job.Exit{Code: 1}, processes},
		{"no thread", before, job.Exit{Signal: 6}, processes},
		{"it ended well", before, job.Exit{}, ""},
		{"forks as before", now, job.Exit{Code: 1}, ""},
		{"its limit", before, job.Exit{Signal: 9, Hint: "its CPU time is limited"}, "its CPU time is limited"},
		{"told to end, with little memory", before, job.Exit{Signal: 15, Usage: job.Usage{MaxRSS: 2<<20 - 1}}, ""},
		{"told to end, with much memory", before, job.Exit{Signal: 15, Usage: job.Usage{MaxRSS: 2 << 20}}, daemon},
		{"a shell reports that", before, job.Exit{Code: 143, Usage: job.Usage{MaxRSS: 2 << 20}}, daemon},
	} {
		s := &Session{sys: System{Root: root}, kernelDenials: test.before, byRank: map[int]*Rank{0: nil, 1: nil}}
		if got := s.exitHint(&test.exit); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// Kills of the whole machine are counted once, when ranks have run for a while.
func TestTheMachineIsCountedOnce(t *testing.T) {
	root := fstest.MapFS{"proc/vmstat": {Data: []byte("oom_kill 3\n")}}
	s := &Session{sys: System{Root: root}}
	for _, test := range []struct {
		running bool
		kills   string
		want    int
	}{{false, "3", -1}, {true, "3", 3}, {true, "4", 3}} {
		root["proc/vmstat"].Data = []byte("oom_kill " + test.kills + "\n")
		if s.countDenials(test.running); s.kernelDenials.MachineKills != test.want {
			t.Errorf("running %v: %d, want %d", test.running, s.kernelDenials.MachineKills, test.want)
		}
	}
}

// exceeded names the limit for which a process was killed.
func TestExceededLimits(t *testing.T) {
	none := unix.Rlimit{Cur: math.MaxUint64, Max: math.MaxUint64}
	second := unix.Rlimit{Cur: 2, Max: 2} // after the first SIGXCPU of a limit of 1
	limits := rankLimits{second, unix.Rlimit{Cur: 512, Max: 1024}}
	used := job.Usage{User: 1500 * time.Millisecond, System: 400 * time.Millisecond}
	for name, test := range map[string]struct {
		limits rankLimits
		exit   job.Exit
		want   string
	}{
		"CPU time":                        {limits, job.Exit{Signal: 24}, "the CPU time of the rank is limited to 1 s (ulimit -t)"},
		"a shell reports it":              {limits, job.Exit{Code: 152}, "the CPU time of the rank is limited to 1 s (ulimit -t)"},
		"CPU time, hard":                  {limits, job.Exit{Signal: 9, Usage: used}, "the CPU time of the rank is limited to 2 s (ulimit -t)"},
		"killed before":                   {limits, job.Exit{Signal: 9}, ""},
		"killed, and there are no limits": {rankLimits{none, none}, job.Exit{Signal: 9, Usage: used}, ""},
		"a file":                          {limits, job.Exit{Signal: 25}, "each file that the rank writes is limited to 512 bytes (ulimit -f)"},
		"a signal that somebody sent":     {rankLimits{none, none}, job.Exit{Signal: 24}, ""},
		"a code":                          {limits, job.Exit{Code: 1, Usage: used}, ""},
	} {
		if got := test.limits.exceeded(test.exit); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// The limits of an ended process can be read until it is reaped, also those that it has set itself.
func TestLimitsOfAProcessThatHasEnded(t *testing.T) {
	cmd := exec.Command("sh", "-c", "ulimit -f 2; ulimit -t 7; exec true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if got, want := rlimitsOf(cmd.Process.Pid), (rankLimits{unix.Rlimit{Cur: 7, Max: 7}, unix.Rlimit{Cur: 1024, Max: 1024}}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
