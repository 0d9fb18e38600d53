//go:build linux

package launch_test

import (
	"fmt"
	"runtime"
	"testing"

	"remshell/launch/launchtest"
)

// A weigher reads our stdout, and measures the heap after each step bytes.
type weigher struct {
	step, taken int
	live        []int64 // live heap after each step, in bytes
}

func (w *weigher) Write(p []byte) (int, error) {
	before := w.taken
	if w.taken += len(p); w.taken/w.step > before/w.step {
		var memory runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&memory)
		w.live = append(w.live, int64(memory.HeapAlloc))
	}
	return len(p), nil
}

// A rank may write for days: memory does not grow with written output, with or without labels.
func TestOutputWithoutEnd(t *testing.T) {
	const total, step = 32 << 20, 4 << 20 // bytes that the rank writes
	const most = 4 << 20                  // bytes by which the heap may grow: more than a window, less than a sixth
	for _, label := range []string{"", "[%r] "} {
		out := &weigher{step: step}
		r := launchtest.NewRun(1, fmt.Sprintf("yes 0123456789012345678901234567890123456789012345678901234567890 | head -c %d", total), "a")
		r.Stdout, r.Req.Streams.Out.Label = out, label
		result, err := r.Do(t)
		if err != nil || result.Code != 0 || out.taken < total {
			t.Fatalf("label %q: code %d, %v, %d bytes", label, result.Code, err, out.taken)
		}
		if grown := out.live[len(out.live)-1] - out.live[0]; grown > most {
			t.Errorf("label %q: the heap has grown by %d bytes; its size every %d: %d", label, grown, step, out.live)
		}
	}
}
