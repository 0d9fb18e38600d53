//go:build linux

package rank

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestTimerSlackFor(t *testing.T) {
	for perCPU, want := range map[int]time.Duration{
		0: 0, 1: 0, 2: 100 * time.Microsecond, 32: 1600 * time.Microsecond, 200: 10 * time.Millisecond, 1 << 40: 10 * time.Millisecond,
	} {
		if got := TimerSlackFor(perCPU); got != want {
			t.Errorf("%d ranks a CPU: %v, want %v", perCPU, got, want)
		}
	}
}

// A child inherits the slack, the thread gets its own back, and no slack becomes smaller.
func TestTimerSlackOfAChild(t *testing.T) {
	s := NewForkThread()
	defer s.Close()
	for _, test := range []struct {
		own, slack time.Duration
		child      string
	}{
		{50 * time.Microsecond, 0, "50000"},
		{50 * time.Microsecond, 2 * time.Millisecond, "2000000"},
		{3 * time.Millisecond, 2 * time.Millisecond, "3000000"},
	} {
		s.Do(func() {
			if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(test.own), 0, 0, 0); err != nil {
				t.Error(err)
			}
			withTimerSlack(test.slack, func() {
				got, err := exec.Command("cat", "/proc/self/timerslack_ns").Output()
				if strings.TrimSpace(string(got)) != test.child || err != nil {
					t.Errorf("of %v a child has %q (%v), want %s", test, got, err, test.child)
				}
			})
			own, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
			if time.Duration(own) != test.own || err != nil {
				t.Errorf("of %v the thread has %v (%v) afterwards", test, time.Duration(own), err)
			}
		})
	}
}
