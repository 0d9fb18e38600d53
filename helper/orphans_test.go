//go:build linux

package helper

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
)

// rusageOf converts what the kernel returns for a reaped process.
func TestUsageOf(t *testing.T) {
	used := unix.Rusage{Utime: unix.Timeval{Sec: 1, Usec: 500_000}, Stime: unix.Timeval{Sec: 2}, Maxrss: 3, Inblock: 4, Oublock: 5}
	want := job.Usage{User: 1500 * time.Millisecond, System: 2 * time.Second, MaxRSS: 3 << 10, InBlocks: 4, OutBlocks: 5}
	if got := rusageOf(&used); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
