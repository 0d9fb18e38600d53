//go:build linux

package gang

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"remshell/job"
	"remshell/job/turns"
	"remshell/launch/launchtest"
	"remshell/proc"
	"remshell/wire"
)

func TestMain(m *testing.M) { launchtest.Main(m) }

// newGang returns a job whose ranks use all CPUs of the nodes n1 and n2. Both have the ledger and the clocks of these directories.
func newGang(id job.ID, ledger, clocks string) *launchtest.Run {
	r := launchtest.NewRun(4, "echo $PMI_RANK $$; exec sleep 600", "n1:2", "n2:2")
	r.Req.Job, r.Req.Gang, r.Req.NoPin, r.Req.Memory = id, true, true, 1<<20
	r.Req.Queue.LedgerDir, r.Settings = ledger, []wire.Setting{&Turns{}}
	r.Helpers.Environ = []string{launchtest.ClockDir + "=" + clocks}
	return r
}

// A gang that is alone from the start is never stopped, not even for the time in which its helpers read the claims of others.
func TestNeverStoppedAlone(t *testing.T) {
	t.Parallel()
	for range 10 {
		r := newGang("alone", t.TempDir(), t.TempDir())
		r.Req.Apps[0].Argv = []string{"/bin/sh", "-c", "trap 'echo continued' CONT; for i in 1 2 3 4 5 6; do sleep 0.05; done"}
		if _, err := r.Do(t); err != nil || r.Out.String() != "" {
			t.Fatalf("%v: stdout %q, stderr %q", err, r.Out.String(), r.Err.String())
		}
	}
}

// --usage and --report of a gang count the time in which the user had suspended the job as time in which it was stopped.
func TestUsageCountsSuspensions(t *testing.T) {
	t.Parallel()
	r := newGang("suspended", t.TempDir(), t.TempDir())
	go func() {
		for range 2 {
			for strings.Count(r.Out.String(), "\n") < 4 { // until all ranks run
				<-time.After(10 * time.Millisecond)
			}
			r.Signals <- syscall.SIGTSTP
			<-r.Suspended
			<-time.After(100 * time.Millisecond)
			r.Suspended <- struct{}{}
		}
		r.Signals <- syscall.SIGTERM
	}()
	result, err := r.Do(t)
	if err != nil {
		t.Fatal(err)
	}
	if g := result.Gang; g == nil || g.Stopped < 200*time.Millisecond || g.Switches != 2 || g.Ran <= 0 {
		t.Errorf("%+v, want 2 stops of 100 ms each", g)
	}
}

// A runningGang is a gang of a test.
type runningGang struct {
	run   *launchtest.Run
	party int
	pids  map[string][]int // by node
	over  chan struct{}
}

// startGang starts a gang and returns when all its ranks run.
func startGang(t *testing.T, r *launchtest.Run, party int) runningGang {
	t.Helper()
	g := runningGang{r, party, make(map[string][]int), make(chan struct{})}
	go func() {
		defer close(g.over)
		r.Do(t)
	}()
	for range 600 {
		if strings.Count(r.Out.String(), "\n") == 4 {
			break
		}
		select {
		case <-g.over:
			t.Fatalf("%s ended: %q", r.Req.Job, r.Err.String())
		case <-time.After(50 * time.Millisecond):
		}
	}
	for line := range strings.Lines(r.Out.String()) {
		var rank, pid int
		fmt.Sscan(line, &rank, &pid)
		node := fmt.Sprint("n", 1+rank/2)
		g.pids[node] = append(g.pids[node], pid)
	}
	return g
}

// runsOn reports whether the ranks on a node run, or whether all are stopped.
func (g runningGang) runsOn(node string) (runs, stopped bool) {
	stopped = true
	for _, pid := range g.pids[node] {
		info, _ := proc.ReadInfo(pid)
		runs, stopped = runs || info.State != 'T', stopped && info.State == 'T'
	}
	return runs, stopped
}

// Done 4 of issue 34. The clock of a node is 3 s ahead of the other clock, which is less than half a slice. mpiexec warns, and on each
// node the gangs take turns by this node's clock, so that they never run together. When a clock is set, helpers follow it within a
// second. A difference of more than half a slice is refused. The helpers of this test are real processes, as are the ranks, but a
// function takes the place of their system clocks.
func TestClocksOfNodesDiffer(t *testing.T) {
	t.Parallel()
	ledger, clocks := t.TempDir(), t.TempDir()
	slice := job.DefaultGangTerms.Slice
	ahead := 3 * time.Second
	setClock := func(d time.Duration) {
		if err := launchtest.SetClock(clocks, "n2", d); err != nil {
			t.Fatal(err)
		}
		ahead = d
	}
	// says reports whether a text has a sentence about the clocks. By how much they differ at least, depends on how soon n2 replies.
	says := func(text, rest string) bool {
		return regexp.MustCompile(`--gang: the clock of n2 is [0-9.]+s ahead of the clock of n1` + rest).MatchString(text)
	}
	setClock(30 * time.Second)
	refused := newGang("refused", ledger, clocks)
	if _, err := refused.Do(t); err == nil || !says(err.Error(), `, which is more than half of a turn \(10s\)`) {
		t.Errorf("30 s ahead: %v", err)
	}
	setClock(3 * time.Second)
	gangs := []runningGang{startGang(t, newGang("a", ledger, clocks), 0), startGang(t, newGang("b", ledger, clocks), 2)}
	for _, g := range gangs {
		if said := g.run.Err.String(); !says(said, "; in each turn, this time is lost") {
			t.Errorf("3 s ahead: %q", said)
		}
	}
	// look counts how often the gangs of a node do as its clock says, and how often both run. It leaves out the second after each
	// boundary.
	look := func(length time.Duration) (right, wrong, both int) {
		for end := time.Now().Add(length); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
			for _, node := range []string{"n1", "n2"} {
				now := time.Now()
				if node == "n2" {
					now = now.Add(ahead)
				}
				n, began := turns.Slice(now, slice)
				if now.Sub(began) < time.Second || now.Sub(began) > slice-time.Second/2 {
					continue
				}
				running := 0
				for i, g := range gangs {
					due := turns.Runs(g.party, []int{gangs[1-i].party}, 4, n)
					runs, stopped := g.runsOn(node)
					if due && !stopped || !due && !runs {
						right++
					} else {
						wrong++
					}
					if runs {
						running++
					}
				}
				if running > 1 {
					both++
				}
			}
		}
		return right, wrong, both
	}
	check := func(what string, length time.Duration) {
		t.Helper()
		right, wrong, both := look(length)
		t.Logf("%s: %d times right, %d wrong, %d times both run", what, right, wrong, both)
		if right < 20 || wrong*10 > right || both*10 > right {
			t.Errorf("%s: %d times right, %d wrong, %d times both run", what, right, wrong, both)
		}
	}
	for _, d := range []time.Duration{0, ahead} { // the second gang runs from the first boundary that is a second after its claim
		_, began := turns.Slice(time.Now().Add(d+settleTime), slice)
		<-time.After(time.Until(began.Add(slice - d)))
	}
	check("3 s ahead", slice-2*time.Second) // in which a slice of one of the nodes begins
	own := func(d time.Duration) bool {     // whether the first gang's slice is now, if the clock is ahead by d
		n, _ := turns.Slice(time.Now().Add(d), slice)
		return turns.Runs(gangs[0].party, []int{gangs[1].party}, 4, n)
	}
	back := 3 * time.Second
	for own(back) == own(ahead) {
		back -= slice
	}
	setClock(back) // so the other gang's slice begins at once
	<-time.After(2 * time.Second)
	check(fmt.Sprint("set back to ", back), 5*time.Second)
	for _, g := range slices.Backward(gangs) {
		g.run.Signals <- syscall.SIGTERM
		<-g.over
	}
}
