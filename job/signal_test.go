//go:build linux

package job

import (
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Numbers and names of signals are those of the kernel.
func TestSignals(t *testing.T) {
	for number := range 65 {
		s, here := Signal(number), syscall.Signal(number)
		text := here.String()
		if text = strings.ToUpper(text[:1]) + text[1:]; s.Description() != text {
			t.Errorf("%d means %q, want %q", number, s.Description(), text)
		}
		name := unix.SignalName(here)
		if name != "" && (s.String() != name || SignalByName(name) != s) {
			t.Errorf("%d is %s, want %s, which is %d", number, s, name, SignalByName(name))
		}
		if name == "" && s.String() != here.String() {
			t.Errorf("%d is %s", number, s)
		}
	}
	for s, want := range map[Signal]syscall.Signal{SIGHUP: syscall.SIGHUP, SIGINT: syscall.SIGINT, SIGQUIT: syscall.SIGQUIT,
		SIGILL: syscall.SIGILL, SIGUSR1: syscall.SIGUSR1, SIGUSR2: syscall.SIGUSR2, SIGALRM: syscall.SIGALRM, SIGTERM: syscall.SIGTERM,
		SIGCONT: syscall.SIGCONT, SIGSTOP: syscall.SIGSTOP, SIGTSTP: syscall.SIGTSTP, SIGWINCH: syscall.SIGWINCH, SIGXCPU: syscall.SIGXCPU} {
		if int(s) != int(want) {
			t.Errorf("%s is %d, want %d", want, s, want)
		}
	}
	if s := SignalByName(""); s != 0 {
		t.Errorf("no name is %s", s)
	}
}
