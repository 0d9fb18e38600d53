//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// metersVar is the environment variable that makes the test binary a meter. Its value is the command, one word a line.
const metersVar = "BENCH_TEST_METER"

func TestMain(m *testing.M) {
	if words := os.Getenv(metersVar); words != "" {
		os.Exit(meter(strings.Split(words, "\n"), true))
	}
	if len(os.Args) > 2 && os.Args[1] == meterArg {
		os.Exit(meter(os.Args[2:], false))
	}
	if len(os.Args) > 1 && os.Args[1] == busyArg {
		os.Exit(busyLoop())
	}
	os.Exit(m.Run())
}

// runMeter runs a command under a meter and returns the values that the meter printed.
func runMeter(t *testing.T, words ...string) (s sample, code int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), metersVar+"="+strings.Join(words, "\n"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	_, s.output, _ = strings.Cut(string(out), "\n")
	if _, err := fmt.Sscan(string(out), &s.wall, &s.cpu, &s.peak, &code); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	return s, code
}

// The meter counts the CPU time of a process that the launcher left behind and did not wait for.
func TestMeterCountsOrphans(t *testing.T) {
	busy := "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"
	direct, _ := runMeter(t, "/bin/sh", "-c", busy)
	orphan, _ := runMeter(t, "/bin/sh", "-c", "{ sleep 0.1; "+busy+"; } & exit 0")
	if direct.cpu == 0 || orphan.cpu < direct.cpu/3 {
		t.Errorf("CPU of an orphan: %v; of the same work in the foreground: %v", orphan.cpu, direct.cpu)
	}
}

// The meter reports the memory of the command, not its own.
func TestMeterReportsMemory(t *testing.T) {
	least, _ := runMeter(t, "/bin/true")
	much, _ := runMeter(t, "/bin/sh", "-c", "x=$(head -c 40000000 /dev/zero | tr '\\0' x); exit 0")
	if least.peak == 0 || much.peak < 40e6 || much.peak < least.peak+30e6 {
		t.Errorf("true: %d bytes; 40 MB in a variable: %d", least.peak, much.peak)
	}
}

func TestMeterReportsExit(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 3": 3, "kill -9 $$": 137} {
		if _, code := runMeter(t, "/bin/sh", "-c", script); code != want {
			t.Errorf("%s: got %d, want %d", script, code, want)
		}
	}
}

func TestMeterKeepsOutput(t *testing.T) {
	if s, _ := runMeter(t, "/bin/sh", "-c", "echo a b; echo c"); s.output != "a b\nc\n" {
		t.Errorf("got %q", s.output)
	}
}

// If a command of a case fails, the case has no row; the other cases have theirs.
func TestACaseThatFails(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	good := testCase{name: "good", figures: wallTimeGoal(0), rounds: roundLimits{1, 1, 0}, ours: []string{"/bin/true"}, theirs: []string{"/bin/true"}}
	bad := good
	bad.name, bad.theirs = "bad", []string{"/bin/false"}
	b := bench{self: self}
	if err := b.measureGroup(context.Background(), caseGroup{cases: []testCase{bad, good}}, ""); err == nil || !strings.Contains(err.Error(), "not measured: bad: /bin/false: exit code 1") {
		t.Errorf("got %v", err)
	}
	if sides, err := b.measure(context.Background(), good); err != nil || len(sides[0]) != 1 || len(sides[1]) != 1 || sides[2] != nil {
		t.Errorf("got %v, %v", sides, err)
	}
}
