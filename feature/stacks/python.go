package stacks

import (
	"strings"

	"remshell/feature/stacks/tree"
	"remshell/job"
	"remshell/stack"
	"remshell/stack/python"
)

// A pythonCall is a call of a Python function.
type pythonCall struct {
	stack.Location
	entry bool // an evaluator was called for it
}

// locateCalls returns the functions, files and lines of Python calls.
func locateCalls(py *python.Runtime, calls []python.Call, mem stack.Memory) (all []pythonCall) {
	for _, c := range calls {
		at, ok := py.Locate(mem, c)
		if !ok {
			at = stack.Location{Function: "?"}
		}
		all = append(all, pythonCall{at, c.Entry})
	}
	return all
}

// A nativeFrame is a frame of the native stack, which is the stack of machine code.
type nativeFrame struct {
	job.StackFrame
	interpreter bool // in Python's own file
	evaluates   bool // evaluates frames of Python
}

// mergePython replaces the frames of the Python interpreter in native by the Python functions in calls. It also
// removes frames without a name, except the innermost one. Both lists begin with the innermost frame. If calls is
// empty, mergePython changes nothing.
func mergePython(native []nativeFrame, calls []pythonCall) (merged []job.StackFrame) {
	evaluators, entries := 0, 0
	for _, f := range native {
		if f.evaluates {
			evaluators++
		}
	}
	for _, c := range calls {
		if c.entry {
			entries++
		}
	}
	starting := max(0, evaluators-entries) // evaluators that have not linked their frame yet: the innermost ones
	take := func() {
		for len(calls) > 0 {
			c := calls[0]
			calls = calls[1:]
			merged = append(merged, job.StackFrame{Function: c.Function, File: c.File, Line: c.Line, Library: tree.Python})
			if c.entry {
				return
			}
		}
	}
	plain := len(calls) == 0
	for i, f := range native {
		switch {
		case plain:
			merged = append(merged, f.StackFrame)
		case f.evaluates:
			if starting--; starting < 0 {
				take()
			}
		case f.interpreter, i > 0 && strings.HasPrefix(f.Function, "0x"), i > 0 && f.Function == "":
		default:
			merged = append(merged, f.StackFrame)
		}
	}
	for len(calls) > 0 { // the machine's stack is not whole
		take()
	}
	return merged
}
