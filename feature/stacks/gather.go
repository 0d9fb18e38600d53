//go:build linux

package stacks

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"remshell/feature/stacks/tree"
	"remshell/job"
	"remshell/stack"
	"remshell/stack/python"
	"remshell/stack/trace"
)

// A target is a process whose stacks have been requested.
type target struct{ rank, pid int }

// nameTime is how long before the deadline the tracing of processes stops. The remaining time is for finding the
// names of functions and the line numbers.
const nameTime = 2 * time.Second

// A rawThread is a thread whose stack frames have addresses but no names yet.
type rawThread struct {
	rank   int
	thread *trace.Thread
	main   bool
	note   string
	frames []stack.Address
	python *python.Runtime // nil: none that is read
	calls  []pythonCall

	mem      stack.Memory // nil: its stack could not be read
	mappings []stack.Mapping
}

// hangTime is how long gatherStacks still waits after the deadline, before it gives up reading files.
const hangTime = time.Second

// A gathered is the result of gatherStacks.
type gathered struct {
	report job.StackReport
	prints map[int]fingerprint // by rank, of main threads
	slots  []slot              // of main threads that are in a call of MPI
}

// gatherStacks reads the stacks of processes, and joins equal stacks. If a file system hangs, so that the programs'
// files cannot be read in time, gatherStacks returns only what the kernel reports.
func gatherStacks(targets []target, deadline time.Time) gathered {
	return inTime(time.Until(deadline)+hangTime, func() (g gathered) {
		g.report, g.prints, g.slots = unwindAll(targets, deadline)
		return g
	}, func() gathered { return gathered{report: describeAll(targets)} })
}

// inTime calls read and returns its result. If read takes longer than limit, inTime returns the result of fallback,
// and read continues in the background.
func inTime[T any](limit time.Duration, read, fallback func() T) T {
	done := make(chan T, 1)
	go func() { done <- read() }()
	select {
	case result := <-done:
		return result
	case <-time.After(limit):
		return fallback()
	}
}

// describeAll reports the state of each target without its stack. It is used if a file system hangs, and reads no
// files of the programs.
func describeAll(targets []target) (report job.StackReport) {
	var groups []job.StackGroup
	for _, t := range targets {
		p := inspected{target: t, Process: trace.Describe(t.pid), err: errFilesHang}
		for _, thread := range p.unwind(time.Now()) {
			groups = append(groups, thread.group(nil))
		}
	}
	report.Groups = tree.Merge(groups)
	return report
}

var errFilesHang = errors.New("the program file cannot be read, because a file system hangs")

// unwindAll reads the stacks of the targets for gatherStacks. It stops tracing processes nameTime before the
// deadline, but reading a file may take any time.
func unwindAll(targets []target, deadline time.Time) (report job.StackReport, prints map[int]fingerprint, slots []slot) {
	var images trace.Images
	defer images.Close()
	processes := inspectAll(targets, &images)
	captureAll(processes, deadline.Add(-nameTime))
	var threads []rawThread
	late := 0
	for i := range processes {
		if processes[i].late {
			late++
		} else {
			threads = append(threads, processes[i].unwind(deadline)...)
		}
	}
	if late > 0 {
		report.Notes = append(report.Notes, fmt.Sprintf("there was not enough time to read the stacks of %d of %d ranks", late, len(targets)))
	}
	names := nameAll(threads, deadline)
	var groups []job.StackGroup
	for i := range threads {
		groups = append(groups, threads[i].group(names))
	}
	report.Groups = tree.Merge(groups)
	prints, slots = fingerprintsOf(threads, names)
	return report, prints, slots
}

// An inspected holds a process and its open files. Once the process has been traced, it also holds its threads.
type inspected struct {
	target
	mappings []stack.Mapping
	mapErr   error
	python   *python.Runtime // nil: it runs no Python, or of a version that is not read
	trace.Process
	err  error
	late bool // no time was left
}

// inspectAll opens the files of processes, before the processes are stopped, and returns the open files.
func inspectAll(targets []target, images *trace.Images) []inspected {
	var finder python.Finder
	all := make([]inspected, len(targets))
	for i, t := range targets {
		p := &all[i]
		p.target = t
		p.mappings, p.mapErr = images.Mappings(t.pid)
		p.python = finder.Find(p.mappings, trace.MemoryOf(t.pid))
	}
	return all
}

// maxTracers is the maximum number of processes that are traced at a time.
const maxTracers = 64

// captureAll traces processes, at most maxTracers of them at a time. It does not begin to trace a process after the
// deadline.
func captureAll(processes []inspected, deadline time.Time) {
	tokens := make(chan struct{}, maxTracers)
	var tracers sync.WaitGroup
	for i := range processes {
		p := &processes[i]
		tokens <- struct{}{}
		tracers.Go(func() {
			defer func() { <-tokens }()
			if p.late = time.Now().After(deadline); !p.late {
				p.Process, p.err = trace.Capture(p.pid, p.python)
			}
		})
	}
	tracers.Wait()
}

// unwind returns the frames of all threads of a process that was traced. For threads that it has not unwound by the
// deadline, it returns only a note.
func (p *inspected) unwind(deadline time.Time) (threads []rawThread) {
	note := ""
	if p.err != nil {
		note = p.err.Error()
	}
	if len(p.Threads) == 0 {
		gone := &trace.Thread{TID: p.pid, State: 'Z'}
		return []rawThread{{rank: p.rank, thread: gone, main: true, note: "the process of the rank has ended"}}
	}
	for i := range p.Threads {
		th := &p.Threads[i]
		r := rawThread{rank: p.rank, thread: th, main: i == 0, note: note, python: p.python}
		switch {
		case th.Read && p.mapErr == nil && time.Now().After(deadline):
			r.note = "there was not enough time to read the stack"
		case th.Read && p.mapErr == nil:
			mem := p.Memory(th)
			r.frames = stack.Unwind(trace.Host, th.Registers, mem, p.mappings)
			r.calls = locateCalls(p.python, th.Calls, mem)
			r.mem, r.mappings = mem, p.mappings
		case note == "" && th.State != 'Z' && th.State != 'X':
			r.note = "the process could not be stopped"
			if p.mapErr != nil && !errors.Is(p.mapErr, unix.ENOENT) {
				r.note = "the memory map of the process cannot be read: " + p.mapErr.Error()
			}
		}
		threads = append(threads, r)
	}
	return threads
}

// An addressKey identifies an address within a file.
type addressKey struct {
	image   *stack.Image
	address uint64
}

// nameAll returns the functions and lines of all addresses of threads. It searches each file once.
func nameAll(threads []rawThread, deadline time.Time) map[addressKey][]stack.Location {
	byImage := make(map[*stack.Image][]uint64)
	names := make(map[addressKey][]stack.Location)
	for _, t := range threads {
		for _, a := range t.frames {
			key := keyOf(a)
			if _, known := names[key]; !known && key.image != nil {
				names[key] = nil
				byImage[key.image] = append(byImage[key.image], a.Address)
			}
		}
	}
	for image, addresses := range byImage {
		for address, locations := range image.Symbolize(addresses, deadline) {
			names[addressKey{image, address}] = locations
		}
	}
	return names
}

func keyOf(a stack.Address) addressKey {
	if a.Mapping == nil || a.Mapping.Image == nil {
		return addressKey{}
	}
	return addressKey{a.Mapping.Image, a.Address}
}

// group returns a group that contains only this thread. Merge joins it with equal ones.
func (t *rawThread) group(names map[addressKey][]stack.Location) job.StackGroup {
	g := job.StackGroup{Ranks: []int{t.rank}, Threads: 1, State: stateOf(t.thread.State), WaitsIn: t.thread.WaitIn, Note: t.note}
	if t.thread.Signal != 0 {
		g.State, g.Signal = job.StackStopped, job.Signal(t.thread.Signal).String()
	}
	if !t.main {
		if g.Thread = t.thread.Name; g.Thread == "" {
			g.Thread = "?"
		}
	}
	var frames []nativeFrame
	for _, a := range t.frames {
		key := keyOf(a)
		inPython := t.python != nil && key.image == t.python.Image
		library := ""
		if a.Mapping != nil {
			library = path.Base(strings.TrimSuffix(a.Mapping.Path, " (deleted)"))
		}
		locations := names[key]
		if len(locations) == 0 {
			locations = []stack.Location{{}}
		}
		for i, l := range locations { // the last one is the function itself, others are inlined
			f := nativeFrame{StackFrame: job.StackFrame{Function: l.Function, Library: library}, interpreter: inPython}
			if !l.Library { // so the innermost line is one of the user's own code
				f.File, f.Line = l.File, l.Line
			}
			f.evaluates = inPython && i == len(locations)-1 && (t.python.Evaluates(a.Address) || strings.HasPrefix(l.Function, "_PyEval_EvalFrameDefault"))
			frames = append(frames, f)
		}
	}
	var cut bool
	if g.Frames, cut = tree.Simplify(mergePython(frames, t.calls)); cut && g.State == job.StackRuns {
		g.WaitsIn = ""
	}
	return g
}

// stateOf returns the state that a letter in /proc/PID/stat stands for. proc_pid_stat(5) lists the letters.
func stateOf(letter byte) job.StackState {
	switch letter {
	case 'S', 'I', 'P', 'W', 'K':
		return job.StackSleeps
	case 'D':
		return job.StackBlocked
	case 'T', 't':
		return job.StackStopped
	case 'Z', 'X', 'x':
		return job.StackEnded
	}
	return job.StackRuns
}
