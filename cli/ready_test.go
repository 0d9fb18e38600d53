package cli

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// Nothing is printed or started until signals are caught: before that a signal would end mpiexec in the middle of it.
func TestSignalsAreCaughtBeforeOutput(t *testing.T) {
	for _, args := range [][]string{{"--version"}, {"--no-such-option"}, {"--help"}, {"--dry-run", "--no-probe", "-n", "1", "true"}} {
		ready := false
		out := writerFunc(func(p []byte) (int, error) {
			if !ready {
				t.Errorf("%q: printed before signals were caught: %s", args, p)
			}
			return len(p), nil
		})
		Main(context.Background(), args, System{
			In: strings.NewReader(""), Out: out, Err: out, AwaitSignals: func() { ready = true },
			Getwd: os.Getwd, FS: fstest.MapFS{},
		})
		if !ready {
			t.Errorf("%q: AwaitSignals was not called", args)
		}
	}
}
