package ranktrace

import (
	"testing"

	"remshell/cli/option"
)

// With one dash, -trace is Intel MPI's option without a value: the program that follows must not be overwritten.
func TestTraceWithOneDashIsRefused(t *testing.T) {
	const want = "-trace: in Intel MPI, this option starts its analysis tools; set LD_PRELOAD or the I_MPI variables with -genv instead; the option --trace FILE, with two dashes, writes timings"
	for _, args := range [][]string{{"-trace", "-n", "2", "./app"}, {"-n", "2", "-trace", "./app"}, {"-TRACE", "./app"}} {
		_, err := parse(args...)
		if err == nil || err.Error() != want && args[0] != "-TRACE" {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
	}
	line, err := parse("--trace", "f", "--trace-svg=g", "./app")
	if o := option.ValuesOf[Options](line); err != nil || o != (Options{"f", "g"}) || line.Apps[0].Program != "./app" {
		t.Errorf("two dashes: %+v, %v", o, err)
	}
}

func parse(args ...string) (option.Line, error) {
	return option.Mpiexec(func(string) int { return 1 }).Parse(args, option.Sources{})
}
