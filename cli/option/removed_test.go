package option

import (
	"errors"
	"strings"
	"testing"

	"remshell/usererr"
)

// A removed option, or its variable, is refused with what to use instead.
func TestRemovedOptionSaysWhatToUse(t *testing.T) {
	table := Mpiexec(linuxSignals)
	for name := range removedOptions {
		want := RemovedError(name).Error()
		if option, value, is := strings.Cut(name, "="); is {
			if _, known := table.findSpelling("--" + option); !known {
				t.Errorf("%s: no such option", name)
			}
			_, err := table.Parse([]string{"--" + option + "=" + value, "a"}, Sources{})
			if err == nil || err.Error() != want {
				t.Errorf("--%s: %v\nwant %s", name, err, want)
			}
			continue
		}
		if _, known := table.findSpelling("--" + name); known {
			t.Errorf("%s is known", name)
		}
		for _, args := range [][]string{{"--" + name, "a"}, {"--" + name + "=1", "a"}, {"-" + name, "1", "a"}} {
			if _, err := table.Parse(args, Sources{}); err == nil || err.Error() != want {
				t.Errorf("%q: %v\nwant %s", args, err, want)
			}
		}
		variable := ownVariable(&Option{Dashed: name})
		if _, err := table.Parse([]string{"a"}, Sources{Environ: []string{variable + "=1"}}); err == nil || err.Error() != variable+": "+want {
			t.Errorf("%s: %v", variable, err)
		}
		config := Sources{Environ: []string{"MPIEXEC_CONFIG=c"}, Read: func(string) (string, error) { return "# mine\n" + name + " = 1\n", nil }}
		if _, err := table.Parse([]string{"a"}, config); err == nil || err.Error() != "c:2: "+want {
			t.Errorf("%s in the configuration: %v", name, err)
		}
	}
}

// A removed option is the only error of a line without a program, and so is a wrong value of a query.
func TestARemovedOptionIsTheOnlyErrorWithoutAProgram(t *testing.T) {
	for _, args := range [][]string{{"--rm-kill-delay"}, {"--rm-scope"}, {"--display-map=full"}, {"--completion", "foo"}} {
		var all UsageErrors
		if _, err := Mpiexec(linuxSignals).Parse(args, Sources{}); !errors.As(err, &all) || len(all) != 1 || strings.Contains(err.Error(), "no program") {
			t.Errorf("%q: %v", args, err)
		}
	}
	if _, err := Mpiexec(linuxSignals).Parse([]string{"-n", "x"}, Sources{}); err == nil || !strings.Contains(err.Error(), "no program given") {
		t.Errorf("-n x: %v", err)
	}
}

// Advice on a removed option fits its value: a variable that switches it off has only to go, and step is the default.
func TestAdviceOnARemovedOptionFitsItsValue(t *testing.T) {
	for assignment, want := range map[string]string{
		"MPIEXEC_PREEMPTIBLE=0":   "unset it",
		"MPIEXEC_NO_MPI_HINTS=0":  "unset it",
		"MPIEXEC_NO_MPI_HINTS=no": "unset it",
		"MPIEXEC_NO_MPI_HINTS=1":  removedOptions["no-mpi-hints"],
		"MPIEXEC_RM_SCOPE=step":   "use --batch-option scope=job; scope=step is the default",
	} {
		_, err := Mpiexec(linuxSignals).Parse([]string{"a"}, Sources{Environ: []string{assignment}})
		var all UsageErrors
		if !errors.As(err, &all) || len(all) != 1 || usererr.Hint(all[0]) != want {
			t.Errorf("%s: %v, want the hint %q", assignment, err, want)
		}
	}
}

// Help on a removed option, or on one of another launcher, says what to use, also without dashes.
func TestHelpOnARemovedOrForeignOptionWithoutDashes(t *testing.T) {
	for word, want := range map[string]string{
		"rm-scope":       "--rm-scope was removed",
		"rm_kill_delay":  "--rm-kill-delay was removed",
		"nproc-per-node": "-nproc-per-node: in torchrun, this option sets the number of ranks on each host; use -ppn N together with --env-compat torch",
	} {
		if _, err := Mpiexec(linuxSignals).HelpOn(word); err == nil || err.Error() != want {
			t.Errorf("-help %s: %v, want %s", word, err, want)
		}
	}
}
