package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"remshell/launch/reserve"
	"remshell/usererr"
)

// The exit code is the same for the shell, --report and --json (EXIT-5, TRUST-33).
func TestExitCode(t *testing.T) {
	missing := &usererr.Error{Text: "no such program", Code: 127}
	for _, test := range []struct {
		name       string
		code       int
		err        error
		ours, want int
	}{
		{"all is well", 0, nil, 125, 0},
		{"a rank's", 7, nil, 125, 7},
		{"none that there is", 256, nil, 77, 77},
		{"ours", 0, errors.New("x"), 125, 125},
		{"ours, by the user's word", 0, errors.New("x"), 77, 77},
		{"ours, by no word", 0, errors.New("x"), 0, 125},
		{"an error beats what was found", 1, errors.New("x"), 77, 77},
		{"of a program that is not there", 0, missing, 77, 127},
		{"among others", 0, errors.Join(errors.New("x"), fmt.Errorf("n1: %w", missing)), 77, 127},
		{"of a fault that is ours", 0, &usererr.Error{Text: "x", Code: 125}, 77, 77},
		{"cancelled", 0, &reserve.SignalError{Signal: syscall.SIGTERM}, 77, 143},
		{"already reported", 0, reportedError{missing}, 77, 127},
	} {
		if got := exitCode(test.code, test.err, test.ours); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

// A panic of our own code prints one line and exits with 125, or the code that the user has set (TRUST-35).
func TestAPanicIsAFailure(t *testing.T) {
	for _, test := range []struct {
		args    []string
		environ []string
		code    int
		stack   bool
	}{
		{[]string{"-n", "1", "true"}, nil, 125, false},
		{[]string{"-n", "1", "true"}, []string{"MPIEXEC_ERROR_CODE=77"}, 77, false},
		{[]string{"-v", "-n", "1", "true"}, nil, 125, true},
	} {
		var out, errs bytes.Buffer
		code := Main(t.Context(), test.args, System{
			In: strings.NewReader(""), Out: &out, Err: &errs, Environ: test.environ, FS: fs.FS(os.DirFS("/")),
			Getwd: func() (string, error) { panic("nobody is anywhere") }, Suspend: func() {}, CatchSignal: func(os.Signal) {},
		})
		printed := errs.String()
		if code != test.code || !strings.Contains(printed, "mpiexec: internal error: nobody is anywhere\n  hint: please report this bug together with the output of mpiexec -v\n") {
			t.Errorf("%v: code %d, %q", test.args, code, printed)
		}
		if stack := strings.Contains(printed, "goroutine "); stack != test.stack || strings.Contains(out.String(), "panic") {
			t.Errorf("%v: a stack: %v, %q", test.args, stack, printed)
		}
	}
}
