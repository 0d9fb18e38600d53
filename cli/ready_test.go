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

// Signals are enabled while the command line is read. What is said or begun before that is over could be ended
// by one of them in its midst.
func TestSignalsAreCaughtBeforeAWordIsSaid(t *testing.T) {
	for _, args := range [][]string{{"--version"}, {"--no-such-option"}, {"--help"}, {"--dry-run", "--no-probe", "-n", "1", "true"}} {
		ready := false
		out := writerFunc(func(p []byte) (int, error) {
			if !ready {
				t.Errorf("%q: said before signals were caught: %s", args, p)
			}
			return len(p), nil
		})
		Main(context.Background(), args, System{
			In: strings.NewReader(""), Out: out, Err: out, AwaitSignals: func() { ready = true },
			Getwd: os.Getwd, FS: fstest.MapFS{},
		})
		if !ready {
			t.Errorf("%q: nobody waited for it", args)
		}
	}
}
