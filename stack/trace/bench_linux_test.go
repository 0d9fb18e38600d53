package trace

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"remshell/stack/python"
)

const manyThreads = `import threading, time, sys
def deep(n):
    if n:
        deep(n - 1)
    elif threading.current_thread() is threading.main_thread():
        print("ready", flush=True)
    if not n:
        time.sleep(1000)
for i in range(int(sys.argv[1]) - 1):
    threading.Thread(target=deep, args=(50,), daemon=True).start()
deep(50)
`

// BenchmarkCapture measures how long the threads of a rank are stopped. The limit is 5 ms, and 20 ms with 64 threads.
func BenchmarkCapture(b *testing.B) {
	script := filepath.Join(b.TempDir(), "planted.py")
	if err := os.WriteFile(script, []byte(manyThreads), 0o644); err != nil {
		b.Fatal(err)
	}
	c := program(b, threaded, "-O1", "-pthread")
	for name, args := range map[string][]string{
		"C, 1 thread": {c, "one"}, "C, 64 threads": {c, "sleepers"}, "Python, 1 thread": {"/usr/bin/python3", script, "1"}, "Python, 64 threads": {"/usr/bin/python3", script, "64"},
	} {
		b.Run(name, func(b *testing.B) {
			pid := start(b, args[0], args[1:]...)
			var images Images
			defer images.Close()
			mappings, err := images.Mappings(pid)
			if err != nil {
				b.Fatal(err)
			}
			py := new(python.Finder).Find(mappings, MemoryOf(pid))
			var most, all time.Duration
			for b.Loop() {
				p, err := Capture(pid, py)
				if err != nil {
					b.Fatal(err)
				}
				most, all = max(most, p.Stopped), all+p.Stopped
			}
			b.ReportMetric(most.Seconds()*1e3, "most-ms")
			b.ReportMetric(all.Seconds()*1e3/float64(b.N), "mean-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}
