//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"remshell/tools/testbed"
)

// Inside of a job of a batch system this program plays the rounds itself:
//
//	this program         the job's script, on its first host
//	batched -- script --> sbatch or qsub --> bench --rounds N  words --and words --and words
//	        <-- file ---- "0 WALL CPU PEAK\n1 WALL CPU PEAK\n..." '-- meter -- launcher
//
// What is counted is the launching side there, as everywhere: a starter's own processes are it, what
// the batch system's daemons start on hosts is not.
const (
	playRoundsArg = "--rounds"
	separatorArg  = "--and"
)

// A batchSystem is one that a field may have. Home is shared, as on most clusters: so hosts reach each other by ssh.
type batchSystem struct {
	missing func() error // why this machine cannot have it
	cluster testbed.Options
	// submit hands in a script and waits for its end; it gets hosts with a task each.
	submit func(hosts int, out, errs, script string) []string
}

var (
	slurm      = batchSystem{testbed.NoSlurm, testbed.Options{Hosts: 32, SharedHome: true, Slurm: true}, sbatch}
	gridEngine = batchSystem{testbed.NoSGE, testbed.Options{Hosts: 8, SharedHome: true, SGE: true}, qsub}
)

func sbatch(hosts int, out, errs, script string) []string {
	return []string{"sbatch", "-W", "-Q", "-N" + strconv.Itoa(hosts), "--ntasks-per-node=1", "-t", "60", "-o", out, "-e", errs, script}
}

func qsub(hosts int, out, errs, script string) []string {
	return []string{"qsub", "-sync", "y", "-terse", "-S", "/bin/sh", "-pe", "mpi", strconv.Itoa(hosts), "-o", out, "-e", errs, script}
}

// roundsInJob are the rounds of these cases: the median of five.
var roundsInJob = roundLimits{least: 5, most: 5}

// slurmCases start a rank on each of 32 hosts, by one srun beside Hydra, and by a srun for each host beside ssh, by which
// the batch system does not see the ranks.
func (b *bench) slurmCases(dir string) []testCase {
	const hosts = 32
	ours := func(starter string) []string {
		return []string{filepath.Join(dir, "mpiexec"), "--no-pin", "-launcher", starter, "-n", strconv.Itoa(hosts), "/bin/true"}
	}
	return []testCase{
		{name: "one srun, 32 hosts", hosts: hosts, figures: wallTimeGoal(1.3), rounds: roundsInJob, ours: ours("slurm-one"),
			theirs:         b.hydraCommand("-launcher", "slurm", "-n", strconv.Itoa(hosts), "/bin/true"),
			lowerBoundArgs: []string{"srun", "-N32", "-n32", "--overlap", "--mpi=none", "/bin/true"}},
		{name: "a srun for each of 32 hosts, beside ssh", hosts: hosts, figures: wallTimeGoal(1.5), rounds: roundsInJob, ours: ours("slurm-each"), theirs: ours("ssh")},
	}
}

// sgeCases start a rank on each of 8 hosts by qrsh, beside Hydra.
func (b *bench) sgeCases(dir string) []testCase {
	words := []string{"-launcher", "sge", "-n", "8", "/bin/true"}
	return []testCase{{name: "qrsh, 8 hosts", hosts: 8, figures: wallTimeGoal(1.1), rounds: roundsInJob,
		ours: append([]string{filepath.Join(dir, "mpiexec"), "--no-pin"}, words...), theirs: b.hydraCommand(words...)}}
}

// copyTo copies our program and this one to a folder that the hosts see.
func (b *bench) copyTo(dir string) error {
	return errors.Join(copyFile(b.ours, filepath.Join(dir, "mpiexec")), copyFile(b.self, filepath.Join(dir, "bench")))
}

func copyFile(from, to string) error {
	program, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, program, 0o755)
}

// measureBatchCase runs all rounds of a case in one job.
func (b *bench) measureBatchCase(ctx context.Context, system *batchSystem, c testCase, dir string) (sides [3][]sample, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	words := slices.Concat([]string{filepath.Join(dir, "bench"), playRoundsArg, strconv.Itoa(c.rounds.least)}, c.ours, []string{separatorArg}, c.theirs)
	if c.lowerBoundArgs != nil {
		words = slices.Concat(words, []string{separatorArg}, c.lowerBoundArgs)
	}
	out, errs, script := filepath.Join(dir, "out"), filepath.Join(dir, "errors"), filepath.Join(dir, "script")
	os.Remove(out) // Grid Engine adds to what is there
	os.Remove(errs)
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexec "+quote(words)+"\n"), 0o755); err != nil {
		return sides, err
	}
	submit := system.submit(c.hosts, out, errs, script)
	said, err := b.cluster.Command(ctx, nil, submit[0], submit[1:]...).CombinedOutput()
	told, _ := os.ReadFile(out)
	failed, _ := os.ReadFile(errs)
	if err == nil {
		sides, err = parseRounds(string(told))
	}
	if err == nil && len(sides[0]) != c.rounds.least {
		err = fmt.Errorf("%d rounds of %d are there", len(sides[0]), c.rounds.least)
	}
	if err != nil {
		return sides, fmt.Errorf("%w\n%s%s%s", err, said, told, failed)
	}
	return sides, nil
}

// quote makes one command of a shell's of words that have no quotes.
func quote(words []string) string { return "'" + strings.Join(words, "' '") + "'" }

// playRounds is what runs in the job: each command once that is not counted, and then so many rounds.
func playRounds(words []string) int {
	rounds, err := strconv.Atoi(words[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var b bench
	if b.self, err = os.Executable(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	sides := splitAt(words[1:], separatorArg)
	for n := range rounds + 1 {
		for i, side := range sides {
			if side[0], err = exec.LookPath(side[0]); err == nil {
				var s sample
				s, err = b.runMetered(context.Background(), meteredRun{words: side})
				if n > 0 {
					fmt.Println(i, int64(s.wall), int64(s.cpu), s.peak)
				}
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
	}
	return 0
}

// splitAt takes a list apart at a word.
func splitAt(words []string, at string) (lists [][]string) {
	for {
		i := slices.Index(words, at)
		if i < 0 {
			return append(lists, words)
		}
		lists, words = append(lists, words[:i:i]), words[i+1:]
	}
}

// parseRounds reads what playRounds has printed.
func parseRounds(text string) (sides [3][]sample, err error) {
	for line := range bytes.Lines([]byte(text)) {
		var side int
		var s sample
		if _, err := fmt.Sscan(string(line), &side, &s.wall, &s.cpu, &s.peak); err != nil || side < 0 || side >= len(sides) {
			return sides, fmt.Errorf("not a line of %s: %q", playRoundsArg, line)
		}
		sides[side] = append(sides[side], s)
	}
	return sides, nil
}
