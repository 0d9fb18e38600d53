//go:build linux

package launch_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"remshell/job"
	"remshell/launch/launchtest"
)

// Some ranks of these tests are this program: see burn.
func TestMain(m *testing.M) {
	if plan := os.Getenv("TEST_BURN"); plan != "" {
		burn(plan)
		return
	}
	launchtest.Main(m)
}

// burn consumes CPU time and memory, has others do so below it, and says on stdout what
// it consumed itself. A plan is "CPU milliseconds/MiB", then the word for how the next one
// is started: wait, leave (nobody waits for it) or detach (and it has a session of its
// own). The first one ends when all below it are over, which a pipe tells that all hold.
func burn(plan string) {
	first := os.Getenv("TEST_BURN_PIPE") == ""
	over, alive, _ := os.Pipe()
	if !first {
		alive = os.NewFile(3, "alive")
	}
	defer func() {
		if alive.Close(); first {
			over.Read(make([]byte, 1))
		}
	}()
	mine, rest, _ := strings.Cut(plan, " ")
	var millis, mib int
	fmt.Sscanf(mine, "%d/%d", &millis, &mib)
	memory := make([]byte, mib<<20)
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	how, next, more := strings.Cut(rest, " ")
	var child *exec.Cmd
	if more {
		child = exec.Command("/proc/self/exe")
		child.Env = append(os.Environ(), "TEST_BURN="+next, "TEST_BURN_PIPE=3")
		child.ExtraFiles = []*os.File{alive}
		child.Stdout = os.Stdout
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: how == "detach"}
		if err := child.Start(); err != nil {
			panic(err)
		}
	}
	spent := func() time.Duration {
		var used syscall.Rusage
		syscall.Getrusage(syscall.RUSAGE_SELF, &used)
		return time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	for spent() < time.Duration(millis)*time.Millisecond {
		for i := range memory {
			memory[i]++
			if i == 1<<16 {
				break
			}
		}
	}
	if child != nil && how == "wait" {
		child.Wait()
	}
	status, _ := os.ReadFile("/proc/self/status")
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	var kib int64
	fmt.Sscanf(peak, "%d", &kib)
	json.NewEncoder(os.Stdout).Encode(job.Usage{User: spent(), MaxRSS: kib << 10})
}

// ours is the most memory that this process has had, in bytes.
func ours() int64 {
	var used syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return used.Maxrss << 10
}

// Issue 6, done when 5: what a rank's children and grandchildren consume counts for it,
// whether it waits for them or not, within a twentieth. (The end of a process costs
// too, some 10 ms under the race detector, of which it cannot tell any more.)
func TestUsageOfChildrenAndGrandchildren(t *testing.T) {
	for _, plan := range []string{
		"300/10 wait 400/100 wait 500/40",
		"100/10 wait 200/10 leave 900/70",
		"100/10 detach 1000/80",
	} {
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			r := launchtest.NewRun(1, "", "a")
			r.Req.Apps[0].Argv = []string{"/proc/self/exe"}
			r.Req.Apps[0].Env.Set = []string{"TEST_BURN=" + plan}
			result, err := r.Do(t)
			if err != nil || result.Code != 0 || len(result.Exits) != 1 {
				t.Fatalf("code %d, %v, stderr %q", result.Code, err, r.Err.String())
			}
			var truth job.Usage
			told, least := 0, int64(math.MaxInt64)
			for line := range strings.Lines(r.Out.String()) {
				var u job.Usage
				if json.Unmarshal([]byte(line), &u) == nil {
					truth.Add(u)
					least = min(least, u.MaxRSS)
					told++
				}
			}
			got := result.Exits[0].Usage
			if want := strings.Count(plan, "/"); told != want {
				t.Fatalf("%d of %d processes told what they consumed: %q", told, want, r.Out.String())
			}
			near := func(what string, got, want float64) {
				if got < 0.95*want || got > 1.05*want {
					t.Errorf("%s: %.0f, the truth is %.0f", what, got, want)
				}
			}
			near("CPU milliseconds", float64((got.User + got.System).Milliseconds()), float64(truth.User.Milliseconds()))
			// The kernel reports the peak memory only of a rank that was larger than its helper, here this process
			// (helper/rank/peakwatcher.go). The test script/end checks the figure of the built program.
			if least > ours() {
				near("peak MiB", float64(got.MaxRSS>>20), float64(truth.MaxRSS>>20))
			}
		})
	}
}
