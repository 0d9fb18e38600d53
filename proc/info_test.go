//go:build linux

package proc_test

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remshell/proc"
)

// Info of a shell and its child: which one works, where it sleeps, and its process group once it has ended.
func TestInfoOfAShellAndItsChild(t *testing.T) {
	cmd := exec.Command("sh", "-c", "WHOSE=ours sleep 1000; true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	shell := cmd.Process.Pid
	var worker int
	for deadline := time.Now().Add(5 * time.Minute); ; {
		worker = proc.ReadTree().ActiveChild(shell)
		if worker != shell && strings.Contains(proc.WaitChannel(worker), "nanosleep") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the worker of shell %d is %d, which sleeps in %q", shell, worker, proc.WaitChannel(worker))
		}
		<-time.After(5 * time.Millisecond)
	}
	look, there := proc.ReadInfo(worker)
	if !there || look.Parent != shell || look.Group != shell || look.State != 'S' || look.CPU > time.Second {
		t.Errorf("%+v, %v", look, there)
	}
	if got := proc.EnvironVariable(worker, "WHOSE"); got != "ours" {
		t.Errorf("WHOSE is %q", got)
	}
	if !slices.Contains(proc.Children(), shell) {
		if _, err := os.Stat("/proc/self/task/" + strconv.Itoa(os.Getpid()) + "/children"); err == nil {
			t.Errorf("%d is none of our children: %v", shell, proc.Children())
		}
	}
	unix.Kill(-shell, unix.SIGKILL)
	pid, err := proc.AwaitChildEnd()
	if err != nil || pid != shell {
		t.Errorf("ended: %d, %v; want %d", pid, err, shell)
	}
	if look, there := proc.ReadInfo(pid); !there || look.State != 'Z' || look.Group != shell {
		t.Errorf("the dead shell: %+v, %v", look, there)
	}
	cmd.Wait()
	if _, there := proc.ReadInfo(pid); there {
		t.Error("it is still there after it was reaped")
	}
}

// In status, a process's groups come before its memory and its signals, and may be tens of thousands.
func TestStatusOfOneInManyGroups(t *testing.T) {
	groups := make([]uint32, 2000)
	for i := range groups {
		groups[i] = 4_000_000_000 + uint32(i)
	}
	cmd := exec.Command("sh", "-c", "trap '' USR1; echo; exec sleep 1000") // exec keeps ignored signals
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid()), Groups: groups}}
	ready, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip("only root puts a process in groups: ", err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	ready.Read(make([]byte, 1))
	if got := proc.PeakMemory(cmd.Process.Pid); got <= 0 {
		t.Errorf("its peak is %d bytes", got)
	}
	if !proc.CatchesOrIgnores(cmd.Process.Pid, syscall.SIGUSR1) {
		t.Error("it ignores SIGUSR1, and Handles does not see it")
	}
}

// A Tree that was read while a PID was reused may contain a cycle.
func TestDescendantsInACycle(t *testing.T) {
	tree := proc.Tree{1: {{PID: 2}, {PID: 3}}, 2: {{PID: 4, CPU: time.Second}}, 4: {{PID: 2}, {PID: 1}}}
	pids := []int{}
	for _, p := range tree.Descendants(1) {
		pids = append(pids, p.PID)
	}
	if !slices.Equal(pids, []int{2, 3, 4}) || tree.CPU(1) != time.Second {
		t.Errorf("%v, %v", pids, tree.CPU(1))
	}
}
