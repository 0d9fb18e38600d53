//go:build linux

/*
Bench measures the cost of launching with mpiexec. It compares mpiexec with Hydra (the launcher of MPICH),
with mpirun of Open MPI, and with scp if mpiexec must first be copied to the hosts. If no other program does
the same work, bench compares mpiexec with a fixed goal.

	           one round                         next round
	ours ----- peer ------ floor        ours ----- peer ------ floor  ...
	      |
	      '-- bench --meter: starts the launcher, is the subreaper of its orphans, and
	          prints wall time, CPU time, memory and exit code

mpiexec (ours) and the other launcher (peer) start the same ranks on the same hosts, in turn, so that other load on the
machine affects both. The first round is not counted: it fills the page cache and, for mpiexec, the program cache of the
hosts. The floor is a lower bound, the least code that could do the work. Over SSH this is mpiexec's SSH
client alone, on this machine a loop of forks, and in a Slurm job srun.

Only the launching side is measured: the launcher and all its descendants on the machine where it runs. This includes
Hydra's ssh processes. It does not include sshd and its children on the hosts. The only exception is an exchange of keys
(exchange.go), where the ranks measure the time themselves.

	build/bench [-list] [-mpiexec PROGRAM] [-hydra PROGRAM] [-mpirun PROGRAM] [-only TEXT]

Bench prints the rows of the table in doc/performance.md.
*/
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"remshell/tools/testbed"
)

func main() {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case meterArg, meterOutputArg:
			os.Exit(meter(os.Args[2:], os.Args[1] == meterOutputArg))
		case lowerBoundArg:
			os.Exit(runLowerBound(os.Args[2:]))
		case linesArg:
			os.Exit(writeLines(os.Args[2]))
		case fakeHostsArg:
			os.Exit(launchFakeHosts(os.Args[2:]))
		case roundsArg:
			os.Exit(runRounds(os.Args[2:]))
		case busyArg:
			os.Exit(busyLoop())
		case feedArg:
			os.Exit(feedCommand(os.Args[2], os.Args[3:]))
		}
	}
	var b bench
	flag.StringVar(&b.ours, "mpiexec", "bin/mpiexec", "our `program`, from the root of the repository")
	flag.StringVar(&b.hydra, "hydra", "mpiexec.hydra", "Hydra's `program`")
	flag.StringVar(&b.mpirun, "mpirun", "mpirun.openmpi", "Open MPI's `program`")
	only := flag.String("only", "", "run cases with this `text` in their names")
	list := flag.Bool("list", false, "print the names of the cases, and run none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := b.run(ctx, *only, *list); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

// A bench contains the programs to compare, and the test cluster on which they run.
type bench struct {
	ours, hydra, mpirun string
	self                string           // path of this program
	cluster             *testbed.Cluster // test cluster of the current cases; nil: they run on this machine
}

// run measures the cases whose names contain pattern, and prints a table. If list is true, it only prints the names
// of these cases. A case that fails has no row in the table. run returns the error of that case after all other
// cases have run.
func (b *bench) run(ctx context.Context, pattern string, list bool) error {
	root, err := testbed.Repo()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err := errors.Join(err, os.Chdir(root), findProgram(&b.ours)); err != nil {
		return err
	}
	b.self = self
	for _, peer := range []*string{&b.hydra, &b.mpirun} {
		if err := findProgram(peer); err != nil && !list {
			fmt.Fprintf(os.Stderr, "bench: %v\n", err) // the cases without this peer still run
		}
	}
	dir, err := os.MkdirTemp("build", "bench-") // hosts of a test cluster see build/, but not bin/
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if !list {
		if err := writeState(filepath.Join(dir, "state.json")); err != nil {
			return err
		}
		fmt.Print(machineText(), "\n", tableHead)
	}
	var errs []error
	for _, g := range b.groups(dir) {
		g.cases = slices.DeleteFunc(g.cases, func(c testCase) bool { return !strings.Contains(c.name, pattern) })
		switch {
		case list:
			for _, c := range g.cases {
				fmt.Println(c.name)
			}
		case len(g.cases) > 0:
			errs = append(errs, b.measureGroup(ctx, g, dir))
		}
	}
	if !list {
		fmt.Print("\nLoad average behind: ", loadAverage(), "\n")
	}
	return errors.Join(errs...)
}

// measureGroup measures all cases of a group and prints their rows of the result table. If the group needs a
// test cluster, measureGroup creates the cluster first and removes it at the end.
func (b *bench) measureGroup(ctx context.Context, g caseGroup, dir string) error {
	var err error
	if g.batch != nil {
		err = errors.Join(g.batch.missing(), b.copyTo(dir))
	}
	if err == nil && g.cluster.Hosts > 0 {
		b.cluster, err = testbed.Up(ctx, g.cluster)
	}
	if err != nil {
		return fmt.Errorf("not measured: %s and what follows on %d hosts: %w", g.cases[0].name, g.cluster.Hosts, err)
	}
	if b.cluster != nil {
		defer func() { b.cluster.Down(); b.cluster = nil }()
	}
	var errs []error
	for _, c := range g.cases {
		fmt.Fprintf(os.Stderr, "bench: %s\n", c.name)
		measure := b.measure
		if g.batch != nil {
			measure = func(ctx context.Context, c testCase) ([3][]sample, error) {
				return b.measureBatchCase(ctx, g.batch, c, dir)
			}
		}
		sides, err := measure(ctx, c)
		if err != nil {
			errs = append(errs, fmt.Errorf("not measured: %s: %w", c.name, err))
			continue
		}
		fmt.Print(tableLines(c, sides))
	}
	return errors.Join(errs...)
}

// findProgram replaces the name of a program with the program's path, which it looks up in PATH.
func findProgram(program *string) error {
	path, err := exec.LookPath(*program)
	if err != nil {
		return fmt.Errorf("%w; make bench as root on Debian installs and builds all that is needed", err)
	}
	*program = path
	return nil
}
