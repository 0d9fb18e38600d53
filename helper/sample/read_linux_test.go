package sample

import (
	"fmt"
	"os"
	"testing"
	"time"

	"remshell/job"
)

func TestParse(t *testing.T) {
	const rest = ") S 7 70 70 0 -1 4194560 1 2 3 4 150 25 10 15 20 0 3 0 4711 40960 5 18446744073709551615 1"
	want := Process{Parent: 7, Group: 70, Born: 4711, Sample: job.Sample{CPU: 2 * time.Second, VMem: 40960, Mem: 5 * pageSize}}
	for name, test := range map[string]struct {
		stat string
		ok   bool
	}{
		"a program":               {"71 (cat" + rest, true},
		"a name that is a trap":   {"71 (a) R 1 1 1) 2 3" + rest, true},
		"a name of several lines": {"71 (\n\n" + rest, true},
		"cut off":                 {"71 (cat) S 7 70 70", false},
		"nothing":                 {"", false},
		"no parenthesis":          {"junk", false},
	} {
		got, ok := parse([]byte(test.stat))
		if ok != test.ok || ok && got != want {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
	}
}

// A rank that has not called exec(2) yet has the memory of the helper that forked it; a process of a rank that never
// does has its own.
func TestParseLeavesOutWhatWeForkUntilItsExec(t *testing.T) {
	for _, test := range []struct {
		parent, flags int
		there         bool
	}{{os.Getpid(), 0x400040, false}, {os.Getpid(), 0x400000, true}, {os.Getpid() + 1, 0x400040, true}} {
		stat := fmt.Sprintf("71 (cat) S %d 70 70 0 -1 %d 1 2 3 4 150 25 10 15 20 0 3 0 4711 40960 5 18446744073709551615 1", test.parent, test.flags)
		if _, there := parse([]byte(stat)); there != test.there {
			t.Errorf("%q is there %v, want %v", stat, there, test.there)
		}
	}
}

// What is read of this process is what it is.
func TestReadFindsUs(t *testing.T) {
	var r Reader
	for _, p := range r.Read() {
		if p.PID != os.Getpid() {
			continue
		}
		if p.Parent != os.Getppid() || p.Mem <= 0 || p.VMem < p.Mem || p.Born == 0 {
			t.Errorf("%+v", p)
		}
		return
	}
	t.Error("this process was not found")
}

// One pass, of a hundred processes or as many as there are: RM-51 wants less than 1 ms for 100.
func BenchmarkPass(b *testing.B) {
	var r Reader
	var book Book
	n := 0
	for b.Loop() {
		all := r.Read()
		book.Take(all, Evidence{Helper: 1, Roots: map[int]int{os.Getpid(): 0}})
		n = len(all)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(n)*100, "µs/100procs")
}
