/*
Package tree joins the stacks of many ranks, and finds the ranks that are at a different place from most. It performs no
I/O.

	a stack of each thread --Simplify--> frames that say where the program is
	   --Merge--> groups of equal stacks (on each node, and again in mpiexec)
	   --Format--> a line for each group, a guess, and the tree of all calls
*/
package tree

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"remshell/job"
)

// Simplify returns the frames of a stack, outermost first. It leaves out frames that say nothing about the program: the
// callers of main or of a thread's function, and the inner calls of a communication library or of the C library.
// innermost contains the frames, innermost first. cut is true if inner calls are left out. If more than
// job.MaxStackFrames frames remain, one frame that says how many are left out replaces those in the middle.
func Simplify(innermost []job.StackFrame) (frames []job.StackFrame, cut bool) {
	frames = slices.Clone(innermost)
	slices.Reverse(frames)
	frames = withoutStart(frames)
	own := ""
	if len(frames) > 0 {
		own = frames[0].Library
	}
	for i := range frames {
		name, isCall := communicationCall(frames[i])
		if isCall {
			frames[i] = job.StackFrame{Function: name, Library: frames[i].Library}
		}
		if !isCall && !isSystem(frames[i].Library) || callsBack(frames[i+1:], own, frames[i].Library) {
			continue
		}
		for isCall && i > 0 && frames[i-1].File == "c10d_logger.py" { // a decorator of torch.distributed
			frames, i = slices.Delete(frames, i-1, i), i-1
		}
		return withoutMiddle(frames[:i+1]), true
	}
	return withoutMiddle(frames), false
}

func withoutMiddle(frames []job.StackFrame) []job.StackFrame {
	extra := len(frames) - job.MaxStackFrames
	if extra <= 0 {
		return frames
	}
	half := job.MaxStackFrames / 2
	return slices.Concat(frames[:half-1], []job.StackFrame{{Function: fmt.Sprintf("(%d more)", extra+1)}}, frames[half+extra:])
}

// Python is the value of StackFrame.Library for Python functions. For other functions it is the name of an ELF file.
const Python = "Python"

// withoutStart returns frames without the start-up code, which calls main or the first function of a thread.
func withoutStart(frames []job.StackFrame) []job.StackFrame {
	for i, f := range slices.Backward(frames) {
		if f.Library != Python && (f.Function == "main" || f.Function == "MAIN__" || f.Function == "runtime.main") {
			return frames[i:]
		}
	}
	if len(frames) > 2 && strings.HasPrefix(frames[1].Function, "__libc_start") { // a stripped program
		frames = frames[1:]
	}
	for i, f := range frames {
		if !isSystem(f.Library) && f.Function != "_start" && f.Function != "runtime.goexit" {
			return frames[i:]
		}
	}
	if len(frames) > 0 { // a thread that the C library has started for itself
		return frames[len(frames)-1:]
	}
	return frames
}

// isSystem reports whether a library is a part of the C library or of the kernel.
func isSystem(library string) bool {
	for _, prefix := range []string{"libc.so", "libc-", "libpthread", "ld-linux", "ld-musl", "libc.musl", "libm.so", "librt", "[vdso]"} {
		if strings.HasPrefix(library, prefix) {
			return true
		}
	}
	return false
}

// callsBack reports whether a library function on the stack has called back into the program. below contains the frames
// of the functions that the library function has called, directly or not. program is the name of the program's ELF
// file. If the library is linked into the program, callsBack returns false.
func callsBack(below []job.StackFrame, program, library string) bool {
	return program != library && slices.ContainsFunc(below, func(f job.StackFrame) bool { return f.Library == program })
}

// MPICall returns the name that the MPI standard gives to a function, if function is its name in C or
// Fortran. For example, it returns MPI_Send for PMPI_Send, mpi_send_ and pmpi_send__.
func MPICall(function string) (name string, ok bool) {
	if function == "ompi_mpi_finalize" { // MPI_Finalize of Open MPI jumps there
		return "MPI_Finalize", true
	}
	bare := strings.TrimPrefix(strings.TrimPrefix(function, "P"), "p")
	rest := ""
	for _, prefix := range []string{"MPI_", "mpi_"} {
		if after, has := strings.CutPrefix(bare, prefix); has {
			rest = after
		}
	}
	if bare[:len(bare)-len(rest)] == "mpi_" {
		if !strings.HasSuffix(rest, "_") {
			return "", false
		}
		rest = strings.TrimRight(rest, "_")
		rest = strings.TrimSuffix(strings.TrimSuffix(rest, "ts"), "_f08")
	}
	if rest == "" || strings.ContainsFunc(rest, func(r rune) bool { return r != '_' && (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z') }) {
		return "", false
	}
	return "MPI_" + strings.ToUpper(rest[:1]) + rest[1:], true
}

// InMPI returns the call of MPI, NCCL, gloo or torch.distributed in which a group waits, or "" if the group
// waits in none.
func InMPI(g job.StackGroup) string {
	if len(g.Frames) == 0 {
		return ""
	}
	last := g.Frames[len(g.Frames)-1]
	if strings.HasPrefix(last.Function, "torch.distributed.") {
		return last.Function // as Simplify has named it
	}
	if name, is := communicationCall(last); is {
		return name
	}
	return ""
}

// key returns a text that is equal for groups that Merge joins. If the thread uses a CPU, the text does not include
// the line of its innermost function, because that line changes in a loop.
func key(g job.StackGroup) string {
	var b strings.Builder
	special := job.StackState("")
	if g.State == job.StackStopped || g.State == job.StackEnded {
		special = g.State
	}
	fmt.Fprintf(&b, "%q %q %q %q", g.Thread, g.Note, special, g.Signal)
	for i, f := range g.Frames {
		if i == len(g.Frames)-1 && g.State == job.StackRuns {
			f.Line = 0
		}
		fmt.Fprintf(&b, " %q %q %d %q", f.Function, f.File, f.Line, f.Library)
	}
	return b.String()
}

// Merge joins groups of equal stacks and returns the joined groups. They are sorted: groups of main threads first, then
// by size with the largest first, then by rank.
func Merge(groups []job.StackGroup) (merged []job.StackGroup) {
	index := make(map[string]int)
	votes := make(map[string]map[job.StackState]int)
	for _, g := range groups {
		k := key(g)
		at, known := index[k]
		if !known {
			index[k], votes[k] = len(merged), make(map[job.StackState]int)
			g.Ranks = slices.Clone(g.Ranks)
			merged = append(merged, g)
		} else {
			m := &merged[at]
			m.Ranks = append(m.Ranks, g.Ranks...)
			m.Threads += g.Threads
			if m.WaitsIn != g.WaitsIn {
				m.WaitsIn = ""
			}
		}
		votes[k][g.State] += g.Threads
	}
	for k, at := range index {
		m := &merged[at]
		slices.Sort(m.Ranks)
		m.Ranks = slices.Compact(m.Ranks)
		for _, state := range []job.StackState{job.StackRuns, job.StackSleeps, job.StackBlocked, job.StackStopped, job.StackEnded} {
			if votes[k][state] > votes[k][m.State] {
				m.State = state
			}
		}
	}
	slices.SortFunc(merged, func(a, b job.StackGroup) int {
		return cmp.Or(cmp.Compare(min(len(a.Thread), 1), min(len(b.Thread), 1)), -cmp.Compare(len(a.Ranks), len(b.Ranks)), slices.Compare(a.Ranks, b.Ranks),
			cmp.Compare(a.Thread, b.Thread), cmp.Compare(key(a), key(b)))
	})
	return merged
}
