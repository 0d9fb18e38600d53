//go:build linux

package main

import (
	"context"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"remshell/text"
	"remshell/tools/testbed"
)

// MPI programs of testdata/programs.sh. The first is of MPICH 3.4.1, which works over TCP.
const (
	hello     = "build/programs/hello"
	openHello = "build/programs/hello.openmpi"
)

// A testCase is a command of ours, in turns with what it is compared with.
type testCase struct {
	name           string
	ours           []string
	theirs         []string // the same work by a peer; nil: there is none
	lowerBoundArgs []string // the least that could do it; nil: there is none
	figures        []figure
	rounds         roundLimits
	hosts          int      // in the job of a batch system in which it runs
	busy           int      // so many loops of ours want the CPUs meanwhile
	fresh          []string // hosts that lose what a run has left there before the next
	ranks          int      // of an exchange, which tells its time itself; 0: it is none
}

// roundLimits say how often a case is run: until time is up, but within bounds.
type roundLimits struct {
	least, most int
	time        time.Duration
}

// A figure is a value of each run. If there is a peer, the goal is the greatest ratio to the peer's value, else
// the greatest value.
type figure struct {
	unit string
	of   func(sample) float64
	goal float64 // 0: there is none
}

func wallTime(s sample) float64   { return float64(s.wall) / float64(time.Millisecond) }
func cpuTime(s sample) float64    { return float64(s.cpu) / float64(time.Millisecond) }
func peakMemory(s sample) float64 { return float64(s.peak) / (1 << 20) }

// wallTimeGoal is the wall time, with its goal.
func wallTimeGoal(goal float64) []figure { return []figure{{"ms", wallTime, goal}} }

// A caseGroup is cases that share a field.
type caseGroup struct {
	cluster testbed.Options // of no hosts: the cases run on this machine
	batch   *batchSystem    // the cases run in its jobs; nil: in none
	cases   []testCase
}

// groups are all cases. dir is a folder of the bench that all hosts see.
func (b *bench) groups(dir string) []caseGroup {
	return []caseGroup{
		{cases: slices.Concat(b.localCases(), b.waitingCases(), b.streamCases(), b.exchangeCases(0, 512, 256), b.largeCases(dir))},
		{cluster: testbed.Options{Hosts: 64}, cases: slices.Concat(b.hostCases(), b.exchangeCases(8, 128, 32), b.deliveryCases())},
		{cluster: testbed.Options{Hosts: 1000}, cases: b.scaleCases(1000)},
		{cluster: slurm.cluster, batch: &slurm, cases: b.slurmCases(dir)},
		{cluster: gridEngine.cluster, batch: &gridEngine, cases: b.sgeCases(dir)},
	}
}

// localCases start ranks on this machine, without SSH.
func (b *bench) localCases() []testCase {
	one := []string{"-n", "1", "/bin/true"}
	many := []string{"-hosts", "localhost:256", "-n", "256", "/bin/true"}
	busy := []string{"-hosts", "localhost:8", "-n", "8", hello}
	open := []string{"-n", "16", openHello}
	return []testCase{
		{name: "true, 1 local rank", figures: wallTimeGoal(0.8), rounds: roundLimits{20, 100, 5 * time.Second},
			ours: b.ownCommand(one...), theirs: b.hydraCommand(one...), lowerBoundArgs: []string{b.self, lowerBoundArg, "fork", "/bin/true", "1"}},
		{name: "true, 256 local ranks", figures: wallTimeGoal(0.9), rounds: roundLimits{7, 20, 12 * time.Second},
			ours: b.ownCommand(many...), theirs: b.hydraCommand(many...), lowerBoundArgs: []string{b.self, lowerBoundArg, "fork", "/bin/true", "256"}},
		{name: "MPICH hello, 8 local ranks, a busy loop on each CPU", figures: wallTimeGoal(1.25), rounds: roundLimits{5, 15, 20 * time.Second},
			ours: b.ownCommand(busy...), theirs: b.hydraCommand(busy...), busy: runtime.NumCPU()},
		{name: "Open MPI hello, 16 local ranks", figures: wallTimeGoal(0.5), rounds: roundLimits{5, 5, 0},
			ours: b.ownCommand(slices.Concat(ownYieldOptions, []string{"-host", "localhost:16"}, open)...), theirs: b.mpirunCommand(slices.Concat(mpirunYieldOptions, open)...)},
	}
}

// hostCases start a rank on each host, over SSH. Ours are not bound: all hosts are this machine, so that the first
// core of each is the same one. Hydra binds nothing by itself.
func (b *bench) hostCases() []testCase {
	var list []testCase
	for _, n := range []int{1, 8, 64} {
		words := []string{"-hosts", hostNames(n), "-n", strconv.Itoa(n), "/bin/true"}
		list = append(list, testCase{name: "true, " + text.Count(n, "host"), figures: wallTimeGoal(0), rounds: roundLimits{5, 20, 8 * time.Second},
			ours: b.ownCommand(append([]string{"--no-pin"}, words...)...), theirs: b.hydraCommand(append([]string{"-launcher", "ssh"}, words...)...),
			lowerBoundArgs: []string{b.self, lowerBoundArg, "ssh", "/bin/true", hostNames(n)}})
	}
	all := &list[len(list)-1]
	all.figures, all.rounds = []figure{{"ms", wallTime, 0.3}, {"ms of CPU", cpuTime, 0.033}}, roundLimits{5, 8, 30 * time.Second}
	open := []string{"-host", hostNames(8), "-n", "8", openHello}
	return append(list, testCase{name: "Open MPI hello, 8 hosts", figures: []figure{{"ms", wallTime, 0.5}, {"ms of CPU", cpuTime, 0.2}}, rounds: roundLimits{5, 5, 0},
		ours: b.ownCommand(slices.Concat(ownYieldOptions, []string{"--no-pin"}, open)...), theirs: b.mpirunCommand(slices.Concat(mpirunYieldOptions, open)...)})
}

// scaleCases start a rank on each of so many hosts. All share this machine: a login may take longer than on a machine of
// its own.
func (b *bench) scaleCases(n int) []testCase {
	return []testCase{{name: "true, " + text.Count(n, "host"), figures: []figure{{"ms", wallTime, 0}, {"ms of CPU", cpuTime, 0}, {"MiB", peakMemory, 0}}, rounds: roundLimits{2, 2, 0},
		ours: b.ownCommand("--no-pin", "--connect-timeout", "300", "-hosts", hostNames(n), "-n", strconv.Itoa(n), "/bin/true")}}
}

// waitingCases are MPI programs whose ranks wait for each other all the time, with two ranks for each CPU: each library
// under its own launcher and under ours. How ranks wait decides here: Open MPI's yield, MPICH's spin.
func (b *bench) waitingCases() []testCase {
	n := strconv.Itoa(2 * runtime.NumCPU())
	here := []string{"-host", "localhost:" + n}
	open := []string{"-n", n, "build/programs/reduce.openmpi", "20000"}
	mpich := []string{"-n", n, "build/programs/reduce.mpich4", "200"}
	r := roundLimits{5, 10, 20 * time.Second}
	return []testCase{
		{name: "Open MPI allreduce, two ranks for each CPU", figures: wallTimeGoal(1.3), rounds: r, ours: b.ownCommand(slices.Concat(here, open)...), theirs: b.mpirunCommand(slices.Concat(mpirunOptions, open)...)},
		{name: "MPICH allreduce, two ranks for each CPU", figures: wallTimeGoal(1.3), rounds: r, ours: b.ownCommand(slices.Concat(here, mpich)...), theirs: b.hydraCommand(mpich...)},
	}
}

// largeCases are a launch on 10,000 hosts that this program plays itself, and a plan of a million ranks.
func (b *bench) largeCases(dir string) []testCase {
	file := filepath.Join(dir, "state.json")
	return []testCase{
		{name: "true, 10000 hosts played in one process", figures: []figure{{"ms", wallTime, 5000}, {"MiB", peakMemory, 1024}}, rounds: roundLimits{5, 5, 0},
			ours: []string{b.self, fakeHostsArg, "10000"}},
		{name: "plan of 1,000,000 ranks", figures: []figure{{"ms", wallTime, 2000}, {"MiB", peakMemory, 2048}}, rounds: roundLimits{5, 5, 0},
			ours: b.ownCommand("--plan", "--cluster-state", file, "-n", "1000000")},
	}
}

func (b *bench) ownCommand(words ...string) []string    { return append([]string{b.ours}, words...) }
func (b *bench) hydraCommand(words ...string) []string  { return append([]string{b.hydra}, words...) }
func (b *bench) mpirunCommand(words ...string) []string { return append([]string{b.mpirun}, words...) }

// mpirunOptions let Open MPI's launcher do what ours and Hydra do unasked: run for root, and run more ranks than there
// are CPUs. Hosts of a field share their CPUs, which no launcher can know; so ranks that wait let others run, under both.
var (
	mpirunOptions      = []string{"--allow-run-as-root", "--oversubscribe"}
	mpirunYieldOptions = slices.Concat(mpirunOptions, []string{"-x", "OMPI_MCA_mpi_yield_when_idle=1"})
	ownYieldOptions    = []string{"-genv", "OMPI_MCA_mpi_yield_when_idle", "1"}
)

// hostNames lists the first n hosts of a field, with a suffix each.
func hostNames(n int, suffix ...string) string {
	names := make([]string, n)
	for i := range names {
		names[i] = "n" + strconv.Itoa(i+1) + strings.Join(suffix, "")
	}
	return strings.Join(names, ",")
}

// measure runs a case: one round that is not counted, since it fills caches, and then the counted ones.
func (b *bench) measure(ctx context.Context, c testCase) (sides [3][]sample, err error) {
	quiet, err := b.startBusyLoops(c.busy)
	if err != nil {
		return sides, err
	}
	defer quiet()
	began := time.Now()
	for n := -1; n < c.rounds.least || n < c.rounds.most && time.Since(began) < c.rounds.time; n++ {
		for i, words := range [][]string{c.ours, c.theirs, c.lowerBoundArgs} {
			if words == nil {
				continue
			}
			s, err := b.measureOnce(ctx, c, words)
			if err != nil {
				return sides, err
			}
			if n >= 0 {
				sides[i] = append(sides[i], s)
			}
		}
		if n < 0 {
			began = time.Now()
		}
	}
	return sides, nil
}

// measureOnce runs one command of a case.
func (b *bench) measureOnce(ctx context.Context, c testCase, words []string) (sample, error) {
	if err := b.removeDelivered(c.fresh); err != nil {
		return sample{}, err
	}
	s, err := b.runMetered(ctx, meteredRun{words: words, onHead: b.cluster != nil, keepOutput: c.ranks > 0})
	if err == nil && c.ranks > 0 {
		s.wall, err = exchangeTime(s.said, c.ranks)
	}
	return s, err
}
