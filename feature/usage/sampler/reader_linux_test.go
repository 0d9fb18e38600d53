package sampler

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
)

func TestParseStat(t *testing.T) {
	const rest = ") S 7 70 70 0 -1 4194560 1 2 3 4 150 25 10 15 20 0 3 0 4711 40960 5 18446744073709551615 1"
	want := Process{Parent: 7, Group: 70, StartTicks: 4711, UsageSample: job.UsageSample{CPU: 2 * time.Second, VMem: 40960, Mem: 5 * pageSize}}
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
		got, ok := parseStat([]byte(test.stat))
		if ok != test.ok || ok && got != want {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
	}
}

// A rank that has not called exec(2) yet has the memory of the helper that forked it, and is left out. A process of a
// rank that never does has its own memory, and counts.
func TestParseStatBeforeExec(t *testing.T) {
	for _, test := range []struct {
		parent, flags int
		there         bool
	}{{os.Getpid(), 0x400040, false}, {os.Getpid(), 0x400000, true}, {os.Getpid() + 1, 0x400040, true}} {
		stat := fmt.Sprintf("71 (cat) S %d 70 70 0 -1 %d 1 2 3 4 150 25 10 15 20 0 3 0 4711 40960 5 18446744073709551615 1", test.parent, test.flags)
		if _, there := parseStat([]byte(stat)); there != test.there {
			t.Errorf("%q is there %v, want %v", stat, there, test.there)
		}
	}
}

// A child is read in each pass. A process that does not descend from the helper is skipped from the second pass on.
func TestReadFindsDescendants(t *testing.T) {
	child := exec.Command("sh", "-c", "echo ready; read x")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); child.Process.Kill(); child.Wait() })
	// Start returns before the kernel has set up the memory of the new program.
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	r := Reader{Helper: os.Getpid()}
	defer r.Close()
	for pass := range 3 {
		found := make(map[int]Process)
		for _, p := range r.Read() {
			found[p.PID] = p
		}
		us, our := found[os.Getpid()], found[child.Process.Pid]
		if us.Parent != os.Getppid() || us.Mem <= 0 || us.VMem < us.Mem || us.StartTicks == 0 || our.Parent != os.Getpid() || our.Mem <= 0 {
			t.Errorf("pass %d: %+v, %+v", pass, us, our)
		}
		if _, told := found[os.Getppid()]; told {
			t.Errorf("pass %d: our parent was told of", pass)
		}
		if !r.previous[os.Getppid()].unrelated {
			t.Errorf("pass %d: our parent is not known", pass)
		}
	}
	if r.openFiles == 0 {
		t.Error("nothing is kept open")
	}
	// A new process with the PID of an unrelated one is read.
	was := r.previous[child.Process.Pid]
	was.inode, was.unrelated = 1, true
	r.previous[child.Process.Pid] = was
	if !slices.ContainsFunc(r.Read(), func(p Process) bool { return p.PID == child.Process.Pid }) {
		t.Error("a number that was used again was passed over")
	}
	if r.Close(); r.openFiles != 0 {
		t.Errorf("%d files are still open", r.openFiles)
	}
}

func TestIsUnrelated(t *testing.T) {
	r := Reader{Helper: 50, current: map[int]seenProcess{60: {unrelated: true}}, parents: map[int]int{1: 0, 40: 1, 50: 40, 70: 50, 71: 70, 61: 60, 80: 79, 90: 91, 91: 90}}
	for pid, want := range map[int]bool{1: true, 40: true, 50: false, 70: false, 71: false, 61: true, 80: false, 90: false} {
		if got := r.isUnrelated(pid); got != want {
			t.Errorf("%d: %v", pid, got)
		}
	}
}

// A size in smaps_rollup is read if there is one.
func TestSmapsField(t *testing.T) {
	for text, want := range map[string]int64{
		"55a-7ff ---p 0 00:00 0 [rollup]\nRss:                 900 kB\nPss:                 100 kB\nPss_Anon: 3 kB\n": 100 << 10,
		"": -1, "[rollup]\nPss:  kB\n": -1, "[rollup]\nPss: x kB\n": -1, "[rollup]\nRss: 7 kB\n": -1,
	} {
		if got, told := smapsField([]byte(text), "Pss"); told != (want >= 0) || told && got != want {
			t.Errorf("%q: %d, %v", text, got, told)
		}
	}
}

// Descendants have the helper as an ancestor, itself left out. A process with an unknown parent has none.
func TestDescendants(t *testing.T) {
	r := Reader{Helper: 50}
	var found []int
	for _, p := range r.Descendants([]Process{testProcess(1, 0, 1, 0, 0), testProcess(50, 1, 50, 0, 0), testProcess(70, 50, 70, 0, 0), testProcess(71, 70, 71, 0, 0), testProcess(60, 1, 60, 0, 0), testProcess(61, 99, 61, 0, 0), testProcess(90, 91, 90, 0, 0), testProcess(91, 90, 91, 0, 0)}) {
		found = append(found, p.PID)
	}
	if !slices.Equal(found, []int{70, 71}) {
		t.Errorf("%v", found)
	}
}

// Mapped memory in memory files counts once where it matters. Memory that is not mapped counts, too.
func TestTotalMemory(t *testing.T) {
	const size = 32 << 20
	shared, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(shared)
	for i := 0; i < size; i += int(pageSize) {
		shared[i] = 1
	}
	r := Reader{Helper: os.Getppid()}
	defer r.Close()
	of := slices.DeleteFunc(r.Read(), func(p Process) bool { return p.PID != os.Getpid() })
	if len(of) != 1 {
		t.Fatalf("%+v", of)
	}
	at := of[0].Mem
	if got := r.TotalMemory(of, size, at+size); got != at+size {
		t.Errorf("where that does not matter: %d, want %d", got, at+size)
	}
	once, twice := r.TotalMemory(of, size, 0), r.TotalMemory(of, 2*size, 0)
	if once > at+size/2 || once < size || twice-once < size/2 || twice-once > size {
		t.Errorf("%d resident, %d of them shared: %d, and %d if there is as much again", at, size, once, twice)
	}
	if gone := []Process{{PID: 1 << 30, UsageSample: job.UsageSample{Mem: 7}}}; r.TotalMemory(gone, 2, 1) != 9 {
		t.Error("a process of which nothing more is known does not count")
	}
}

// One pass of a helper with a hundred processes, besides all others of the machine. RM-51 wants less than 1 ms for
// 100.
func BenchmarkPass(b *testing.B) {
	const ours = 100
	roots := make(map[int]int)
	for rank := range ours {
		child := exec.Command("sleep", "1000")
		if err := child.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { child.Process.Kill(); child.Wait() })
		roots[child.Process.Pid] = rank
	}
	r := Reader{Helper: os.Getpid()}
	defer r.Close()
	var book Tracker
	b.ReportAllocs()
	began := spent()
	for b.Loop() {
		book.SumByRank(r.Read(), Ownership{Helper: os.Getpid(), RankByPID: roots})
	}
	b.ReportMetric(float64((spent()-began).Microseconds())/float64(b.N)/ours*100, "cpu-µs/100procs")
}

// spent returns the CPU time of this process.
func spent() time.Duration {
	var used unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
