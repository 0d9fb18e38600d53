package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestSignalsToEndThatComeTogetherAreOne(t *testing.T) {
	type sent struct {
		s  os.Signal
		at time.Duration
	}
	const term, hup, interrupt, usr1 = syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGUSR1
	for name, test := range map[string]struct {
		sent  []sent
		kinds string // one letter for each signal: n is new, r repeats
	}{
		"one":                    {[]sent{{term, 0}}, "n"},
		"timeout":                {[]sent{{term, 0}, {term, time.Millisecond}}, "nr"},
		"systemd":                {[]sent{{term, 0}, {hup, time.Millisecond}}, "nr"},
		"a shell and the kernel": {[]sent{{hup, 0}, {hup, 20 * time.Millisecond}}, "nr"},
		"a user who insists":     {[]sent{{term, 0}, {term, time.Second}}, "nn"},
		"one after the other":    {[]sent{{term, 0}, {term, 200 * time.Millisecond}, {term, 400 * time.Millisecond}}, "nrn"},
		"^C twice":               {[]sent{{interrupt, 0}, {interrupt, time.Millisecond}}, "nn"},
		"what ranks are told":    {[]sent{{usr1, 0}, {usr1, time.Millisecond}}, "nn"},
		"^C, and then the end":   {[]sent{{interrupt, 0}, {term, time.Millisecond}}, "nn"},
		"another one in between": {[]sent{{term, 0}, {usr1, time.Millisecond}, {hup, 2 * time.Millisecond}}, "nnr"},
	} {
		var e endSignals
		var kinds strings.Builder
		began := time.Now()
		for _, s := range test.sent {
			if e.isRepeat(s.s, began.Add(s.at)) {
				kinds.WriteByte('r')
			} else {
				kinds.WriteByte('n')
			}
		}
		if kinds.String() != test.kinds {
			t.Errorf("%s: %s, want %s", name, &kinds, test.kinds)
		}
	}
}

// timeout(1) sends SIGTERM to its child and then to its own process group, to which the child belongs.
func TestTimeoutDoesNotTakeTheGraceOfTheRanks(t *testing.T) {
	us, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		cmd := exec.Command("timeout", "1000", us, "-host", "localhost:1", "-n", "1", "sh", "-c",
			`trap "sleep 0.3; echo saved; exit" TERM; echo ready; while :; do sleep 0.01; done`)
		s := startHungCommand(t, cmd, nil)
		s.awaitLine(t, "ready")
		cmd.Process.Signal(syscall.SIGALRM) // SIGALRM makes timeout act as if its time were over
		s.awaitLine(t, "saved")
		cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 124 {
			t.Fatalf("exit code %d, stderr %q", code, s.errs.String())
		}
	}
}
