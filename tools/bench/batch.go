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
	roundsArg = "--rounds"
	andArg    = "--and"
)

// A batchSystem is one of those that a field may have. Home is shared, as on most clusters: so hosts reach each other by ssh.
type batchSystem struct {
	name    string
	missing func() error // why this machine cannot have it
	options testbed.Options
	// submit hands in a script and waits for its end; it gets hosts with a task each.
	submit func(hosts int, out, errs, script string) []string
	cases  func(dir string) []batchCase
}

// A batchCase is run inside of a job on so many hosts. floor, if there is one, is a whole command.
type batchCase struct {
	testCase
	hosts int
}

var batchSystems = []batchSystem{
	{"Slurm", testbed.NoSlurm, testbed.Options{Hosts: 32, SharedHome: true, Slurm: true}, sbatch, slurmCases},
	{"Grid Engine", testbed.NoSGE, testbed.Options{Hosts: 8, SharedHome: true, SGE: true}, qsub, sgeCases},
}

func sbatch(hosts int, out, errs, script string) []string {
	return []string{"sbatch", "-W", "-Q", "-N" + strconv.Itoa(hosts), "--ntasks-per-node=1", "-t", "60", "-o", out, "-e", errs, script}
}

func qsub(hosts int, out, errs, script string) []string {
	return []string{"qsub", "-sync", "y", "-terse", "-S", "/bin/sh", "-pe", "mpi", strconv.Itoa(hosts), "-o", out, "-e", errs, script}
}

// inJob are the rounds of these cases: the median of five.
var inJob = rounds{least: 5, most: 5}

// one is a rank on each of so many hosts, in turns with Hydra by the same starter.
func one(name, starter string, hosts int) batchCase {
	words := []string{"-launcher", starter, "-n", strconv.Itoa(hosts), "/bin/true"}
	hydras := slices.Clone(words)
	hydras[1], _, _ = strings.Cut(starter, "-") // which knows one way only
	return batchCase{testCase{name: name + ", " + strconv.Itoa(hosts) + " hosts", rival: hydra, rounds: inJob,
		ours: append([]string{"--no-pin"}, words...), theirs: hydras}, hosts}
}

// toSSH is the same of ours, in turns with ssh, by which the batch system does not see the ranks.
func toSSH(name, starter string, hosts int) batchCase {
	c := one(name, starter, hosts)
	c.name, c.rival, c.theirs = c.name+", to ssh", ourselves, slices.Clone(c.ours)
	c.theirs[slices.Index(c.theirs, starter)] = "ssh"
	return c
}

// bulk is how much a rank of another host writes.
const bulk = 64 << 20

func slurmCases(dir string) []batchCase {
	var list []batchCase
	for _, n := range []int{8, 32} {
		once := one("one srun", "slurm-one", n)
		c := one("srun", "slurm-each", n)
		c.floor = []string{"srun", "-N" + strconv.Itoa(n), "-n" + strconv.Itoa(n), "--overlap", "--mpi=none", "/bin/true"}
		once.floor = c.floor
		list = append(list, c, once, toSSH("srun", "slurm-each", n))
	}
	file := filepath.Join(dir, "bulk")
	return append(list,
		batchCase{testCase{name: "srun, output to srun's", rival: ourselves, rounds: inJob,
			ours:   []string{"--no-pin", "-launcher", "slurm", "-hosts", "n2", "-n", "1", "cat", file},
			theirs: []string{"srun", "-N1", "-n1", "-w", "n2", "--overlap", "--mpi=none", "cat", file}}, 2},
		batchCase{testCase{name: "1 host in a job of Slurm's, to outside", rival: ourselves, rounds: rounds{least: 15, most: 15},
			ours: []string{"-n", "1", "/bin/true"}, theirs: []string{"-rmk", "none", "-n", "1", "/bin/true"}}, 1})
}

func sgeCases(dir string) []batchCase {
	calls, streams := one("qrsh", "sge", 8), one("qrsh", "sge-streams", 8)
	return []batchCase{calls, toSSH("qrsh", "sge", 8),
		{testCase{name: "qrsh, 8 hosts, to its streams", rival: ourselves, rounds: inJob, ours: calls.ours, theirs: streams.ours}, 8},
		{testCase{name: "qrsh, output to its streams", rival: ourselves, rounds: inJob,
			ours:   []string{"--no-pin", "-launcher", "sge", "-n", "2", "-ppn", "1", "cat", filepath.Join(dir, "bulk")},
			theirs: []string{"--no-pin", "-launcher", "sge-streams", "-n", "2", "-ppn", "1", "cat", filepath.Join(dir, "bulk")}}, 2}}
}

// batches measures the cases inside of batch systems whose names contain only. Each system has a field
// of its own, so that its daemons disturb nothing else.
func (b *bench) batches(ctx context.Context, only string) error {
	for _, system := range batchSystems {
		if !slices.ContainsFunc(system.cases(""), func(c batchCase) bool { return strings.Contains(c.name, only) }) {
			continue
		}
		if err := system.missing(); err != nil {
			fmt.Printf("\nNothing was measured inside of %s: %v\n", system.name, err)
			continue
		}
		rows, err := b.inside(ctx, system, only)
		if err != nil {
			return fmt.Errorf("%s: %w", system.name, err)
		}
		fmt.Printf("\nInside of a job of %s; load average behind: %s\n\n%s\n%s", system.name, load(), table(rows), verdicts(rows))
	}
	return nil
}

// inside measures a system's cases, each in a job.
func (b *bench) inside(ctx context.Context, system batchSystem, only string) (rows []row, err error) {
	if err := find(&b.hydra); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("build", "batch-") // the hosts of a field see build, but not bin
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	ours := filepath.Join(dir, "mpiexec")
	if err := errors.Join(copyFile(b.ours, ours), copyFile(b.self, filepath.Join(dir, "bench")), os.WriteFile(filepath.Join(dir, "bulk"), make([]byte, bulk), 0o644)); err != nil {
		return nil, err
	}
	field, err := testbed.Up(ctx, system.options)
	if err != nil {
		return nil, err
	}
	defer field.Down()
	for _, c := range system.cases(dir) {
		if !strings.Contains(c.name, only) {
			continue
		}
		fmt.Fprintf(os.Stderr, "bench: %s\n", c.name)
		r, err := b.batched(ctx, field, system, c, dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func copyFile(from, to string) error {
	program, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, program, 0o755)
}

// words are the commands of a case, in the order of the sides of a row. What is compared with ours and is
// no launcher is named with all its words.
func (c batchCase) words(ours, theirs string) [][]string {
	sides := [][]string{append([]string{ours}, c.ours...), c.theirs}
	if strings.HasPrefix(c.theirs[0], "-") {
		sides[1] = append([]string{theirs}, c.theirs...)
	}
	if c.floor != nil {
		sides = append(sides, c.floor)
	}
	return sides
}

// batched runs all rounds of a case in one job.
func (b *bench) batched(ctx context.Context, field *testbed.Field, system batchSystem, c batchCase, dir string) (row, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	r := row{name: c.name, rival: c.rival}
	ours := filepath.Join(dir, "mpiexec")
	theirs := map[rival]string{hydra: b.hydra, ourselves: ours}[c.rival]
	words := []string{filepath.Join(dir, "bench"), roundsArg, strconv.Itoa(c.rounds.least)}
	for i, side := range c.words(ours, theirs) {
		if i > 0 {
			words = append(words, andArg)
		}
		words = append(words, side...)
	}
	out, errs, script := filepath.Join(dir, "out"), filepath.Join(dir, "errors"), filepath.Join(dir, "script")
	os.Remove(out) // Grid Engine adds to what is there
	os.Remove(errs)
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexec "+quote(words)+"\n"), 0o755); err != nil {
		return r, err
	}
	submit := system.submit(c.hosts, out, errs, script)
	cmd := field.Command(ctx, nil, submit[0], submit[1:]...)
	said, err := cmd.CombinedOutput()
	told, _ := os.ReadFile(out)
	failed, _ := os.ReadFile(errs)
	if err == nil {
		r.sides, err = parseRounds(string(told))
	}
	if err == nil && len(r.sides[0]) != c.rounds.least {
		err = fmt.Errorf("%d rounds of %d are there", len(r.sides[0]), c.rounds.least)
	}
	if err != nil {
		return r, fmt.Errorf("%w\n%s%s%s", err, said, told, failed)
	}
	return r, nil
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
	sides := split(words[1:], andArg)
	for n := range rounds + 1 {
		for i, side := range sides {
			if side[0], err = exec.LookPath(side[0]); err == nil {
				var s sample
				s, err = b.metered(context.Background(), run{words: side})
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

// split takes a list apart at a word.
func split(words []string, at string) (lists [][]string) {
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
			return sides, fmt.Errorf("not a line of %s: %q", roundsArg, line)
		}
		sides[side] = append(sides[side], s)
	}
	return sides, nil
}
