package cli

import (
	"bytes"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// A panic of ours is one line and 125, or what the user has put in its place (TRUST-35).
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
			Getwd: func() (string, error) { panic("nobody is anywhere") }, Suspend: func() {}, Catch: func(os.Signal) {},
		})
		said := errs.String()
		if code != test.code || !strings.Contains(said, "mpiexec: internal error: nobody is anywhere; please report it, with what -v says\n") {
			t.Errorf("%v: code %d, %q", test.args, code, said)
		}
		if stack := strings.Contains(said, "goroutine "); stack != test.stack || strings.Contains(out.String(), "panic") {
			t.Errorf("%v: a stack: %v, %q", test.args, stack, said)
		}
	}
}
