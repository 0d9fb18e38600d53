//go:build linux

/*
Bench measures what launches cost: beside Hydra, the launcher of MPICH, beside mpirun of Open MPI, beside scp where our
program is delivered first, and against fixed goals where nobody else does the same.

	           one round                         next round
	ours ----- peer ------ floor        ours ----- peer ------ floor  ...
	      |
	      '-- this program again, as a meter: starts the launcher, is subreaper of
	          all it leaves behind, and tells wall time, CPU, memory and exit code

Both start the same ranks on the same hosts, in turns, so that whatever else the
machine does meets both. A round before the first is not counted: it fills the page
cache and, with ours, the hosts' program cache. The floor is the least that could do
the work: over SSH, our client without anything above it; on this machine, a loop of
forks; in a job of Slurm, srun.

What is counted is the launching side: the launcher and every process it has started
where it runs, its children and theirs. Hydra's ssh processes count; sshd and what
it starts on the hosts do not. Only an exchange (exchange.go) is timed by its ranks.

	build/bench [-list] [-mpiexec PROGRAM] [-hydra PROGRAM] [-mpirun PROGRAM] [-only TEXT]

The table that it prints has the rows of doc/performance.md.
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
		case playRoundsArg:
			os.Exit(playRounds(os.Args[2:]))
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

// A bench is the programs that are compared and where they are run.
type bench struct {
	ours, hydra, mpirun string
	self                string           // this program
	cluster             *testbed.Cluster // nil: the cases run on this machine
}

// run measures the cases whose names contain only, and prints a table. A case that fails costs its own row.
func (b *bench) run(ctx context.Context, only string, list bool) error {
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
			fmt.Fprintf(os.Stderr, "bench: %v\n", err) // other rows need it not
		}
	}
	dir, err := os.MkdirTemp("build", "bench-") // the hosts of a batch system see build, but not bin
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
		g.cases = slices.DeleteFunc(g.cases, func(c testCase) bool { return !strings.Contains(c.name, only) })
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

// measureGroup measures cases on a field of their own, so that nothing else disturbs them.
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

// findProgram finds a program.
func findProgram(program *string) error {
	path, err := exec.LookPath(*program)
	if err != nil {
		return fmt.Errorf("%w; make bench as root on Debian installs and builds all that is needed", err)
	}
	*program = path
	return nil
}
