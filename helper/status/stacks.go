//go:build linux

/*
Package status tells what ranks are doing: to other helpers of their user, by a socket, and, with
their stacks, to mpiexec.
*/
package status

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
Stacks of ranks that -timeout has struck (--on-timeout stacks). Java's and Go's runtimes write
theirs when SIGQUIT comes. Of a program that does not catch it a debugger of the node tells,
or else the kernel:

	Inspect --> states --> gdb or eu-stack, one rank after the other, Stacks' time in all
	                                | none, no leave, no time
	                                '--> /proc/PID/wchan, syscall, stack
	SIGQUIT waits until that is over: it kills who does not catch it.
*/
const (
	maxStackBytes  = 16 << 10 // bytes of one rank
	maxStacksBytes = 1 << 20  // of a node
)

// Stacks are those of ranks that do not catch SIGQUIT, empty for others and for pid 0. Time is
// for all of them; foreign hears of each debugger, which is a child and no rank.
func Stacks(pids []int, time time.Duration, environ []string, foreign func(pid int)) []string {
	ctx, done := context.WithTimeout(context.Background(), time)
	defer done()
	tools, tree := debuggers(environ), proc.ReadTree()
	texts, left := make([]string, len(pids)), maxStacksBytes
	for i, pid := range pids {
		if pid != 0 && !proc.Catches(tree.ActiveChild(pid), unix.SIGQUIT) && left > 0 {
			text := stackOf(ctx, tree.ActiveChild(pid), tools, foreign)
			texts[i] = text[:min(len(text), maxStackBytes, left)]
			left -= len(texts[i])
		}
	}
	return texts
}

// A debugger is a program that writes the stacks of a process.
type debugger struct {
	name, path string
	args       []string // before the process
	argsAfter  []string // behind it
}

// debuggers are those that the node has, in the PATH of the helper.
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

// stackOf is the stack of a process, by whoever can tell it; the first line says who.
func stackOf(ctx context.Context, pid int, tools []debugger, foreign func(pid int)) string {
	why, told := "neither gdb nor eu-stack is there", kernelStack(pid) // before a debugger stops it
	for _, d := range tools {
		text, err := d.stackOf(ctx, pid, foreign)
		if err == nil {
			return "by " + d.name + "\n" + text
		}
		why = d.name + ": " + err.Error()
	}
	return "as the kernel tells (" + why + ")\n" + told
}

// stackOf runs a debugger, as long as ctx lasts. What it says counts if there is a frame in it.
func (d debugger) stackOf(ctx context.Context, pid int, foreign func(pid int)) (string, error) {
	deadline, _ := ctx.Deadline()
	if ctx.Err() != nil {
		return "", errNoTime
	}
	r, child, err := d.start(pid, foreign)
	if err != nil {
		return "", err
	}
	defer r.Close()
	defer unix.Close(child)
	r.SetReadDeadline(deadline)
	said, err := io.ReadAll(io.LimitReader(r, maxStackBytes))
	unix.PidfdSendSignal(child, unix.SIGKILL, nil, 0) // late, or with too much to say
	switch text := string(said); {
	case strings.Contains(text, "\n#0 ") || strings.HasPrefix(text, "#0 "):
		return stackFrames(text), nil
	case err != nil:
		return "", errNoTime
	default:
		return "", errors.New(debuggerError(text))
	}
}

var errNoTime = errors.New("no time")

// start runs it with a pipe for what it says. It is no process of the job.
func (d debugger) start(pid int, foreign func(pid int)) (r *os.File, child int, err error) {
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
	foreign(number)
	return r, child, nil
}

// stackFrames are the lines of a debugger from the first that tells of a thread or frame.
func stackFrames(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, "Thread ") || strings.HasPrefix(line, "TID ") {
			return strings.Join(lines[i:], "\n")
		}
	}
	return text
}

// debuggerError is what a debugger says that could not: the line about it, else the last one.
func debuggerError(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, line := range lines {
		if strings.Contains(line, "not permitted") || strings.Contains(line, "ptrace") {
			return line
		}
	}
	return lines[len(lines)-1]
}

// kernelStack is what the kernel tells of where a process is.
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
