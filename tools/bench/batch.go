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

// In a job of a batch system, bench runs itself as the job's program. That copy of bench runs all rounds and writes
// the results to a file:
//
//	bench                                    the job's script, on the job's first host
//	measureBatchCase -- script --> sbatch or qsub --> bench --rounds N COMMAND --and COMMAND --and COMMAND
//	        <-- file ---- "0 WALL CPU PEAK\n1 WALL CPU PEAK\n..."         '-- meter -- launcher
//
// As in other cases, only the launching side is measured. It includes processes such as srun that the launcher
// starts, but not processes that the batch system's daemons start on the hosts.
const (
	roundsArg    = "--rounds"
	separatorArg = "--and"
)

// A batchSystem is a batch system that a test cluster can run. As on most clusters, all hosts share one home
// directory, so that a job's host can connect to the others by ssh.
type batchSystem struct {
	missing func() error // returns why this machine cannot run it, or nil
	cluster testbed.Options
	// submit returns the command that submits a script and waits for its end. The job gets hosts with one task each.
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

// roundsInJob sets the number of rounds in batch-system cases to five.
var roundsInJob = roundLimits{least: 5, most: 5}

// slurmCases returns the cases that start one rank on each of 32 hosts in a Slurm job. One case uses a single srun for
// all hosts and is compared with Hydra. The other uses one srun for each host and is compared with mpiexec over
// ssh, although Slurm does not account for ranks that ssh starts.
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

// sgeCases returns the case that starts one rank on each of 8 hosts with qrsh, compared with Hydra.
func (b *bench) sgeCases(dir string) []testCase {
	words := []string{"-launcher", "sge", "-n", "8", "/bin/true"}
	return []testCase{{name: "qrsh, 8 hosts", hosts: 8, figures: wallTimeGoal(1.1), rounds: roundsInJob,
		ours: append([]string{filepath.Join(dir, "mpiexec"), "--no-pin"}, words...), theirs: b.hydraCommand(words...)}}
}

// copyTo copies mpiexec and bench to a directory that the hosts can read.
func (b *bench) copyTo(dir string) error {
	return errors.Join(copyFile(b.ours, filepath.Join(dir, "mpiexec")), copyFile(b.self, filepath.Join(dir, "bench")))
}

func copyFile(source, target string) error {
	program, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	return os.WriteFile(target, program, 0o755)
}

// measureBatchCase runs all rounds of a case in one job of the batch system and reads the samples from the job's
// output.
func (b *bench) measureBatchCase(ctx context.Context, system *batchSystem, c testCase, dir string) (sides [3][]sample, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	words := slices.Concat([]string{filepath.Join(dir, "bench"), roundsArg, strconv.Itoa(c.rounds.least)}, c.ours, []string{separatorArg}, c.theirs)
	if c.lowerBoundArgs != nil {
		words = slices.Concat(words, []string{separatorArg}, c.lowerBoundArgs)
	}
	out, errs, script := filepath.Join(dir, "out"), filepath.Join(dir, "errors"), filepath.Join(dir, "script")
	os.Remove(out) // Grid Engine appends to an existing file
	os.Remove(errs)
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexec "+quote(words)+"\n"), 0o755); err != nil {
		return sides, err
	}
	submit := system.submit(c.hosts, out, errs, script)
	submitOutput, err := b.cluster.Command(ctx, nil, submit[0], submit[1:]...).CombinedOutput()
	jobOutput, _ := os.ReadFile(out)
	jobErrors, _ := os.ReadFile(errs)
	if err == nil {
		sides, err = parseRounds(string(jobOutput))
	}
	if err == nil && len(sides[0]) != c.rounds.least {
		err = fmt.Errorf("%d rounds of %d are there", len(sides[0]), c.rounds.least)
	}
	if err != nil {
		return sides, fmt.Errorf("%w\n%s%s%s", err, submitOutput, jobOutput, jobErrors)
	}
	return sides, nil
}

// quote joins words into one shell command, with single quotes around each word. No word may contain a single quote.
func quote(words []string) string { return "'" + strings.Join(words, "' '") + "'" }

// runRounds measures commands inside a batch job, and returns the exit code. The first word is the number of rounds.
// The commands follow, with separatorArg between them. runRounds first runs each command once without measuring it.
// Then it prints one line for each command in each round.
func runRounds(words []string) int {
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

// splitAt splits a list at each element that is equal to at. These elements are not part of the result.
func splitAt(words []string, at string) (lists [][]string) {
	for {
		i := slices.Index(words, at)
		if i < 0 {
			return append(lists, words)
		}
		lists, words = append(lists, words[:i:i]), words[i+1:]
	}
}

// parseRounds parses the output of runRounds. It returns an error if a line has another form.
func parseRounds(text string) (sides [3][]sample, err error) {
	for line := range bytes.Lines([]byte(text)) {
		var side int
		var s sample
		if _, err := fmt.Sscan(string(line), &side, &s.wall, &s.cpu, &s.peak); err != nil || side < 0 || side >= len(sides) {
			return sides, fmt.Errorf("not a line of %s: %q", roundsArg, line)
		}
		sides[side] = append(sides[side], s)
	}
	return sides, nil
}
