package stacks

import (
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
)

// A rank that a debugger traces is left alone, and the report says which process traces it. Other ranks are read.
func TestRankUnderADebugger(t *testing.T) {
	var targets []target
	for rank := range 2 {
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		targets = append(targets, target{rank, cmd.Process.Pid})
	}
	seized, release := make(chan error), make(chan bool)
	defer close(release)
	go func() {
		runtime.LockOSThread()
		seized <- unix.PtraceSeize(targets[1].pid)
		<-release
	}()
	if err := <-seized; err != nil {
		t.Fatal(err)
	}
	notes := make(map[int]job.StackGroup)
	report := gatherStacks(targets, time.Now().Add(10*time.Second)).report
	for _, g := range report.Groups {
		for _, rank := range g.Ranks {
			notes[rank] = g
		}
	}
	if g := notes[0]; g.Note != "" || len(g.Frames) == 0 {
		t.Errorf("rank 0: %+v", g)
	}
	if g := notes[1]; !strings.HasPrefix(g.Note, "process ") || !strings.HasSuffix(g.Note, " traces it already") || len(g.Frames) != 0 {
		t.Errorf("rank 1: %+v", g)
	}
	var status unix.WaitStatus
	if got, err := unix.Wait4(targets[1].pid, &status, unix.WNOHANG|unix.WUNTRACED, nil); got != 0 || err != nil {
		t.Error("it was stopped: " + fmt.Sprint(status, err))
	}
}

// If reading the files of programs takes too long, the states of the ranks are reported nevertheless.
func TestFilesThatHang(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	forever := make(chan job.StackReport)
	defer close(forever)
	targets := []target{{3, cmd.Process.Pid}}
	report := inTime(time.Millisecond, func() job.StackReport { return <-forever }, func() job.StackReport { return describeAll(targets) })
	if len(report.Groups) != 1 || !slices.Equal(report.Groups[0].Ranks, []int{3}) || report.Groups[0].Note != errFilesHang.Error() || len(report.Groups[0].Frames) != 0 {
		t.Errorf("%+v", report)
	}
	if got := inTime(time.Hour, func() int { return 1 }, func() int { return 2 }); got != 1 {
		t.Error("what was read in time is not returned")
	}
}
