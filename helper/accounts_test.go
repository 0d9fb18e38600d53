//go:build linux

package helper

import (
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
)

// What the kernel tells of a process that was waited for.
func TestUsageOf(t *testing.T) {
	used := unix.Rusage{Utime: unix.Timeval{Sec: 1, Usec: 500_000}, Stime: unix.Timeval{Sec: 2}, Maxrss: 3, Inblock: 4, Oublock: 5}
	want := job.Usage{User: 1500 * time.Millisecond, System: 2 * time.Second, MaxRSS: 3 << 10, InBlocks: 4, OutBlocks: 5}
	if got := usageOf(&used); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A hint needs a counter that has risen, and a rank that we have not killed ourselves.
func TestHints(t *testing.T) {
	events := &fstest.MapFile{Data: []byte("oom_kill 3\n")}
	root := fstest.MapFS{"proc/self/cgroup": {Data: []byte("0::/job\n")}, "sys/fs/cgroup/job/memory.events": events}
	for _, test := range []struct {
		name   string
		before int
		exit   job.Exit
		want   string
	}{
		{"raised", 2, job.Exit{Signal: 9}, "out of memory: the kernel has killed a process of its control group"},
		{"raised twice", 1, job.Exit{Signal: 9}, "out of memory: the kernel has killed 2 processes of its control group"},
		{"not raised", 3, job.Exit{Signal: 9}, ""},
		{"unknown", -1, job.Exit{Signal: 9}, ""},
		{"killed by us", 2, job.Exit{Signal: 9, Asked: true}, ""},
		{"another signal", 2, job.Exit{Signal: 11}, ""},
	} {
		s := &session{sys: System{Root: root}, accounts: accounts{oomKills: test.before}}
		if got := s.hint(&test.exit); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
