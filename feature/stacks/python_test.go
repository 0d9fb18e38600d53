package stacks

import (
	"slices"
	"strings"
	"testing"

	"remshell/job"
	"remshell/stack"
)

// Python functions stand where the interpreter evaluates them. A frame that is not linked yet, or a stack that is not whole,
// moves none of the others.
func TestMergePython(t *testing.T) {
	// Innermost first. "E" evaluates, a word with "@" is in another file, "+" marks calls with an evaluator of their own.
	for _, test := range []struct{ native, calls, want string }{
		{"send@mpi 0x12@ext call E run main _start@libc", "g f <module>+", "send g f <module> _start"},
		{"read@libc E call E main", "h+ g <module>+", "read h g <module>"},
		{"E call sort@libc E main", "cmp+ <module>+", "cmp sort <module>"},
		{"E call E main", "<module>+", "<module>"},
		{"E call E", "g+ f+ <module>+", "g f <module>"},
		{"0x12@ext E main", "<module>+", "0x12 <module>"},
		{"lookup E main", "f <module>+", "f <module>"},
		{"send@mpi E main", "", "send E main"},
		{"", "f+", "f"},
		{"E", "f g", "f g"},
	} {
		var native []nativeFrame
		for word := range strings.FieldsSeq(test.native) {
			name, _, outside := strings.Cut(word, "@")
			native = append(native, nativeFrame{StackFrame: job.StackFrame{Function: name}, interpreter: !outside, evaluates: name == "E"})
		}
		var calls []pythonCall
		for word := range strings.FieldsSeq(test.calls) {
			name, entry := strings.CutSuffix(word, "+")
			calls = append(calls, pythonCall{stack.Location{Function: name}, entry})
		}
		var got []string
		for _, f := range mergePython(native, calls) {
			got = append(got, f.Function)
		}
		if want := strings.Fields(test.want); !slices.Equal(got, want) {
			t.Errorf("%s, %s: %q, want %q", test.native, test.calls, got, want)
		}
	}
}
