//go:build linux

package proc

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMain plays the parent of a tree in a process of its own, since EndDescendants ends every child of the process
// that calls it.
func TestMain(m *testing.M) {
	if script := os.Getenv("PROC_TEST_SCRIPT"); script != "" {
		parent(script)
		return
	}
	if os.Getenv(largeEnviron) != "" {
		growEnviron()
		return
	}
	os.Exit(m.Run())
}

// parent starts the script, waits until it has printed the PIDs of its processes, passes them on, ends all
// descendants, and prints how many EndDescendants found.
func parent(script string) {
	if err := BecomeSubreaper(); err != nil {
		panic(err)
	}
	cmd := exec.Command("/bin/sh", "-c", script)
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	found := EndDescendants(200*time.Millisecond, 5*time.Second)
	os.Stdout.WriteString(strconv.Itoa(found) + " " + line)
}

func TestEndLeavesNothing(t *testing.T) {
	tests := []struct {
		name, script string
		least        int
	}{
		{"a child", `sleep 600 & echo $$ $!; wait`, 2},
		{"one that called setsid", `setsid sh -c 'echo $$; exec sleep 600'; wait`, 1},
		{"an orphan", `(setsid sh -c 'echo $$; exec sleep 600' &) ; exit 0`, 1},
		{"deaf to SIGTERM", `trap '' TERM; sh -c 'echo $$; while :; do sleep 600; done'; :`, 1},
		{"stopped", `sh -c 'echo $$; kill -STOP $$'; sleep 600`, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), "PROC_TEST_SCRIPT="+test.script)
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			fields := strings.Fields(string(out))
			if len(fields) < 2 {
				t.Fatalf("output %q", out)
			}
			if found, _ := strconv.Atoi(fields[0]); found < test.least {
				t.Errorf("End found %d processes, want at least %d", found, test.least)
			}
			for _, pid := range fields[1:] {
				if _, err := os.Stat("/proc/" + pid); err == nil {
					t.Errorf("process %s is still there", pid)
				}
			}
		})
	}
}

func TestDescendantsSeesTheTree(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "sleep 600 & echo $!; wait")
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	grandchild, _ := strconv.Atoi(strings.TrimSpace(line))
	below := map[int]bool{}
	for _, p := range Descendants(os.Getpid()) {
		below[p.PID] = true
	}
	if !below[cmd.Process.Pid] || !below[grandchild] {
		t.Errorf("Below = %v, want %d and %d in it", below, cmd.Process.Pid, grandchild)
	}
	for _, p := range Descendants(cmd.Process.Pid) {
		if proc, err := os.FindProcess(p.PID); err == nil {
			proc.Kill()
		}
	}
	cmd.Wait()
}

func TestExitingIsSeenBeforeTheEndIsReaped(t *testing.T) {
	cmd := exec.Command("/bin/sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if IsExiting(cmd.Process.Pid) {
		t.Error("exiting while it lives")
	}
	cmd.Process.Kill()
	for end := time.Now().Add(5 * time.Minute); !IsExiting(cmd.Process.Pid); {
		if time.Now().After(end) {
			t.Fatal("a killed process is not exiting")
		}
	}
	cmd.Wait()
	if !IsExiting(cmd.Process.Pid) {
		t.Error("not exiting though it was reaped")
	}
}
