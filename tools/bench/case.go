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

// These are MPI programs that testdata/programs.sh compiles. hello is linked with MPICH 3.4.1, which communicates
// over TCP. openHello is linked with Open MPI.
const (
	hello     = "build/programs/hello"
	openHello = "build/programs/hello.openmpi"
)

// A testCase compares an mpiexec command with other commands. Each round runs each of these commands once.
type testCase struct {
	name           string
	ours           []string
	theirs         []string // the same work by another launcher; nil: no comparison
	lowerBoundArgs []string // the lower bound (column "floor"); nil: not measured
	figures        []figure
	rounds         roundLimits
	hosts          int      // hosts to request for the batch job that runs the case; 0: no batch job
	busy           int      // number of busy loops that use the CPUs meanwhile
	fresh          []string // hosts on which delivered files are removed before each run

	prints func(sample) (time.Duration, error) // the time, as the ranks have printed it; nil: the wall time counts
}

// A roundLimits says how many rounds of a case are measured. The fields least and most are the smallest and the largest
// number of rounds. Within these limits, rounds are repeated until the time in the field time has passed.
type roundLimits struct {
	least, most int
	time        time.Duration
}

// A figure is a value that is measured in each run, such as the wall time. If the case has a peer (a program for
// comparison), goal is the maximum allowed median of the ratio to the peer's value. Otherwise goal is the maximum
// allowed median of the value itself.
type figure struct {
	unit string
	of   func(sample) float64
	goal float64 // 0: no goal
}

func wallTime(s sample) float64   { return float64(s.wall) / float64(time.Millisecond) }
func cpuTime(s sample) float64    { return float64(s.cpu) / float64(time.Millisecond) }
func peakMemory(s sample) float64 { return float64(s.peak) / (1 << 20) }

// wallTimeGoal returns a list with one figure: the wall time in milliseconds, with the given goal. If goal is 0, the
// figure has no goal.
func wallTimeGoal(goal float64) []figure { return []figure{{"ms", wallTime, goal}} }

// A caseGroup is a list of cases that run on the same test cluster, or on this machine.
type caseGroup struct {
	cluster testbed.Options // if Hosts is 0, the cases run on this machine
	batch   *batchSystem    // batch system in whose jobs the cases run; nil: not in jobs
	cases   []testCase
}

// groups returns all cases, grouped by the test cluster that they need. dir is a directory that bench has created and
// that all hosts can read.
func (b *bench) groups(dir string) []caseGroup {
	return []caseGroup{
		{cases: slices.Concat(b.localCases(), b.waitingCases(), b.watchedCases(), b.pairCases(), b.streamCases(), b.exchangeCases(0, 512, 256), b.largeCases(dir))},
		{cluster: testbed.Options{Hosts: 64}, cases: slices.Concat(b.hostCases(), b.exchangeCases(8, 128, 32), b.deliveryCases())},
		{cluster: testbed.Options{Hosts: 1000}, cases: b.scaleCases(1000)},
		{cluster: slurm.cluster, batch: &slurm, cases: b.slurmCases(dir)},
		{cluster: gridEngine.cluster, batch: &gridEngine, cases: b.sgeCases(dir)},
	}
}

// localCases returns the cases that start ranks on this machine, without SSH.
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

// hostCases returns the cases that start one rank on each host over SSH. mpiexec runs with --no-pin: all hosts are
// this machine, so mpiexec would otherwise bind all ranks to the same core. Hydra does not bind ranks by default.
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

// scaleCases returns the case that starts one rank on each of n hosts. Its connect timeout is longer than the default,
// because logins are slower when all hosts share one machine.
func (b *bench) scaleCases(n int) []testCase {
	return []testCase{{name: "true, " + text.Count(n, "host"), figures: []figure{{"ms", wallTime, 0}, {"ms of CPU", cpuTime, 0}, {"MiB", peakMemory, 0}}, rounds: roundLimits{2, 2, 0},
		ours: b.ownCommand("--no-pin", "--connect-timeout", "300", "-hosts", hostNames(n), "-n", strconv.Itoa(n), "/bin/true")}}
}

// waitingCases returns cases with twice as many ranks as CPUs, in which ranks constantly wait for each other. For each
// MPI library, the library's own launcher is compared with mpiexec. Ranks of Open MPI yield the CPU while they wait.
// Ranks of MPICH spin.
func (b *bench) waitingCases() []testCase {
	n := strconv.Itoa(2 * runtime.NumCPU())
	local := []string{"-host", "localhost:" + n}
	open := []string{"-n", n, "build/programs/reduce.openmpi", "20000"}
	mpich := []string{"-n", n, "build/programs/reduce.mpich4", "200"}
	r := roundLimits{5, 10, 20 * time.Second}
	return []testCase{
		{name: "Open MPI allreduce, two ranks for each CPU", figures: wallTimeGoal(1.3), rounds: r, ours: b.ownCommand(slices.Concat(local, open)...), theirs: b.mpirunCommand(slices.Concat(mpirunOptions, open)...)},
		{name: "MPICH allreduce, two ranks for each CPU", figures: wallTimeGoal(1.3), rounds: r, ours: b.ownCommand(slices.Concat(local, mpich)...), theirs: b.hydraCommand(mpich...)},
	}
}

// watchedCases returns the case of two ranks that exchange messages while mpiexec watches for a hang, compared with the
// same exchange without watching. With --hang=20, mpiexec samples the ranks three times as often as with the default
// time.
func (b *bench) watchedCases() []testCase {
	watched := func(hang string) []string {
		return b.ownCommand("--hang="+hang, "-host", "localhost:2", "-n", "2", "build/programs/reduce.mpich4", "15s")
	}
	return []testCase{{name: "1000 MPICH allreduces, watched by --hang, beside --hang=0", figures: wallTimeGoal(1.01), rounds: roundLimits{5, 5, 0},
		ours: watched("20"), theirs: watched("0"), prints: allreduceTime}}
}

// largeCases returns two cases: a launch on 10,000 simulated hosts, and a plan of a million ranks.
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

// mpirunOptions make mpirun do what mpiexec and Hydra do by default: run as root, and run more ranks than there
// are CPUs. With the yield options, ranks that wait yield the CPU. The hosts of a test cluster share CPUs, and
// no launcher can detect that.
var (
	mpirunOptions      = []string{"--allow-run-as-root", "--oversubscribe"}
	mpirunYieldOptions = slices.Concat(mpirunOptions, []string{"-x", "OMPI_MCA_mpi_yield_when_idle=1"})
	ownYieldOptions    = []string{"-genv", "OMPI_MCA_mpi_yield_when_idle", "1"}
)

// hostNames returns the names of the first n hosts of a test cluster, separated by commas. It appends suffix to
// each name.
func hostNames(n int, suffix ...string) string {
	names := make([]string, n)
	for i := range names {
		names[i] = "n" + strconv.Itoa(i+1) + strings.Join(suffix, "")
	}
	return strings.Join(names, ",")
}

// measure runs the rounds of a case. It does not count the first round, which fills caches. sides contains the samples
// of mpiexec, of the peer (the program for comparison) and of the lower bound.
func (b *bench) measure(ctx context.Context, c testCase) (sides [3][]sample, err error) {
	stopLoops, err := b.startBusyLoops(c.busy)
	if err != nil {
		return sides, err
	}
	defer stopLoops()
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

// measureOnce runs one command of the case and measures it. If the case measures a first start, measureOnce first
// removes the files that an earlier run has left on the hosts.
func (b *bench) measureOnce(ctx context.Context, c testCase, words []string) (sample, error) {
	if err := b.removeDelivered(c.fresh); err != nil {
		return sample{}, err
	}
	s, err := b.runMetered(ctx, meteredRun{words: words, onHead: b.cluster != nil, keepOutput: c.prints != nil})
	if err == nil && c.prints != nil {
		s.wall, err = c.prints(s)
	}
	return s, err
}
