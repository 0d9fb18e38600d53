//go:build linux

/*
Package nodestate is the part of the feature that works on the processes of one node. A Socket serves the states of
one helper's ranks to other helpers. Collect reads states from the sockets. Stacks reads the stacks of processes.
*/
package nodestate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
	"remshell/proc"
)

/*
Stacks of ranks when -timeout is over (--on-timeout stacks). The runtimes of Java and Go write
their stacks on SIGQUIT. For a program that does not catch SIGQUIT, a debugger on the node reads the stack,
or else the kernel's information is used:

	InspectRanks --> states --> gdb or eu-stack, one rank after the other, within the time of Stacks
	                                | none, not permitted, or no time
	                                '--> /proc/PID/wchan, syscall, stack

SIGQUIT waits until this is done, since it kills programs that do not catch it.
*/
const (
	maxStackBytes  = 16 << 10 // per rank
	maxStacksBytes = 1 << 20  // for all ranks of a node
)

// Stacks returns the stacks of processes that do not catch SIGQUIT. time limits all of them together. The text is
// empty for other processes and for pid 0. onStart is called with the process ID of each debugger, which is a child
// process and not a rank.
func Stacks(pids []int, time time.Duration, environ []string, onStart func(pid int)) []string {
	ctx, done := context.WithTimeout(context.Background(), time)
	defer done()
	tools, tree := debuggers(environ), proc.ReadTree()
	texts, left := make([]string, len(pids)), maxStacksBytes
	for i, pid := range pids {
		if pid != 0 && !proc.Catches(tree.ActiveChild(pid), unix.SIGQUIT) && left > 0 {
			text := stackOf(ctx, tree.ActiveChild(pid), tools, onStart)
			texts[i] = text[:min(len(text), maxStackBytes, left)]
			left -= len(texts[i])
		}
	}
	return texts
}

// A debugger is a program that prints the stacks of a process.
type debugger struct {
	name, path string
	args       []string // arguments before the process ID
	argsAfter  []string // arguments after it
}

// debuggers returns the debuggers found in the helper's PATH.
func debuggers(environ []string) (found []debugger) {
	path := job.DefaultPath
	for _, assignment := range environ {
		if value, is := strings.CutPrefix(assignment, "PATH="); is {
			path = value
		}
	}
	for _, d := range []debugger{
		{name: "gdb", args: []string{"-q", "-nx", "-batch", "-iex", "set auto-load off", "-p"}, argsAfter: []string{"-ex", "thread apply all backtrace"}},
		{name: "eu-stack", args: []string{"-p"}},
	} {
		for dir := range strings.SplitSeq(path, ":") {
			d.path = filepath.Join(dir, d.name)
			if filepath.IsAbs(dir) && unix.Access(d.path, unix.X_OK) == nil {
				found = append(found, d)
				break
			}
		}
	}
	return found
}

// stackOf returns the stack of a process from the first debugger that can read it, or from the kernel. The first line names the source.
func stackOf(ctx context.Context, pid int, tools []debugger, onStart func(pid int)) string {
	why, fromKernel := "neither gdb nor eu-stack is there", kernelStack(pid) // before a debugger stops it
	for _, d := range tools {
		text, err := d.stackOf(ctx, pid, onStart)
		if err == nil {
			return "by " + d.name + "\n" + text
		}
		why = d.name + ": " + err.Error()
	}
	return "as the kernel tells (" + why + ")\n" + fromKernel
}

// stackOf runs a debugger until ctx ends. It returns the debugger's output, or an error if the output has no stack
// frame.
func (d debugger) stackOf(ctx context.Context, pid int, onStart func(pid int)) (string, error) {
	deadline, _ := ctx.Deadline()
	if ctx.Err() != nil {
		return "", errNoTime
	}
	r, child, err := d.start(pid, onStart)
	if err != nil {
		return "", err
	}
	defer r.Close()
	defer unix.Close(child)
	r.SetReadDeadline(deadline)
	output, err := io.ReadAll(io.LimitReader(r, maxStackBytes))
	unix.PidfdSendSignal(child, unix.SIGKILL, nil, 0) // it may be late, or have printed too much
	switch text := string(output); {
	case strings.Contains(text, "\n#0 ") || strings.HasPrefix(text, "#0 "):
		return stackFrames(text), nil
	case err != nil:
		return "", errNoTime
	default:
		return "", errors.New(debuggerError(text))
	}
}

var errNoTime = errors.New("no time")

// start runs the debugger with a pipe for its output. The debugger does not count as a process of the job.
func (d debugger) start(pid int, onStart func(pid int)) (r *os.File, child int, err error) {
	null, err := os.Open("/dev/null")
	if err != nil {
		return nil, 0, err
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, 0, err
	}
	defer w.Close()
	argv := slices.Concat([]string{d.name}, d.args, []string{strconv.Itoa(pid)}, d.argsAfter)
	number, err := syscall.ForkExec(d.path, argv, &syscall.ProcAttr{
		Env:   []string{"PATH=" + job.DefaultPath, "LC_ALL=C", "DEBUGINFOD_URLS="},
		Files: []uintptr{null.Fd(), w.Fd(), w.Fd()}, Sys: &syscall.SysProcAttr{PidFD: &child, Setpgid: true},
	})
	if err != nil {
		r.Close()
		return nil, 0, err
	}
	onStart(number)
	return r, child, nil
}

// stackFrames returns the debugger's output from the first line about a thread or frame.
func stackFrames(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, "Thread ") || strings.HasPrefix(line, "TID ") {
			return strings.Join(lines[i:], "\n")
		}
	}
	return text
}

// debuggerError returns the line of the output that explains why a debugger failed, or else the last line.
func debuggerError(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, line := range lines {
		if strings.Contains(line, "not permitted") || strings.Contains(line, "ptrace") {
			return line
		}
	}
	return lines[len(lines)-1]
}

// kernelStack returns the data in /proc about where a process waits or runs.
func kernelStack(pid int) string {
	var b strings.Builder
	for _, name := range []string{"wchan", "syscall", "stack"} {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + name)
		if err != nil {
			text = []byte("not told (" + errnoText(err) + ")")
		}
		for line := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
			fmt.Fprintf(&b, "%-8s %s\n", name, line)
			name = ""
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

func errnoText(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return err.Error()
}
