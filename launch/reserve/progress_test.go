package reserve

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"remshell/job"
)

// A quick start shows nothing. A slow one shows a line, which is removed in the end (DIAG-6).
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		env := Env{ProgressAfter: 2 * time.Second, Progress: func(text string) {
			if n := len(lines); n == 0 || lines[n-1] != text {
				lines = append(lines, text)
			}
		}}
		hosts := []job.NodeDef{{Name: "n1"}, {Name: "n2"}, {Name: "n3"}}
		answered, stop := watchConnects(env, hosts)
		answered(0)
		time.Sleep(time.Second)
		stop()
		if lines != nil {
			t.Errorf("after a second: %q", lines)
		}
		answered, stop = watchConnects(env, hosts)
		answered(1)
		time.Sleep(3 * time.Second)
		time.Sleep(3 * time.Second)
		answered(0)
		time.Sleep(500 * time.Millisecond)
		stop()
		want := []string{"connecting 1/3", "connecting 1/3 · slow: n[1,3] (5 s)", "connecting 2/3 · slow: n3 (6 s)", ""}
		lines = slices.DeleteFunc(lines, func(text string) bool { return text == "connecting 1/3 · slow: n[1,3] (6 s)" })
		if !slices.Equal(lines, want) {
			t.Errorf("got %q, want %q", lines, want)
		}
	})
}
