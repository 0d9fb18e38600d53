//go:build linux

/*
Bench measures how long mpiexec plans large jobs for a cluster in a file, what a launch costs
on 10,000 hosts that it plays itself, and compares its launches with those of Hydra, the launcher of MPICH,
and, for programs of Open MPI, with those of its mpirun, on the hosts of a field.

	           one round                         next round
	ours ----- Hydra ----- floor        ours ----- Hydra ----- floor  ...
	      |
	      '-- this program again, as a meter: starts the launcher, is subreaper of
	          all it leaves behind, and tells wall time, CPU and exit code

Both start the same ranks on the same hosts, in turns, so that whatever else the
machine does meets both. A round before the first is not counted: it fills the page
cache and, with ours, the hosts' program cache. The floor is the least that could do
the work: over SSH, our client without anything above it; on this machine, a loop of
forks. Where our program is delivered first, it is compared with scp (delivery.go), the floor then sends it, too.

What is counted is the launching side: the launcher and every process it has started
where it runs, its children and theirs. Hydra's ssh processes count; sshd and what
it starts on the hosts do not. Only the exchange of exchange.go is timed by the ranks
themselves, with the servers' CPU time. Inside of a batch system's job (batch.go) the floor is srun.

	go run ./bench [-mpiexec PROGRAM] [-hydra PROGRAM] [-mpirun PROGRAM] [-only TEXT]

It asserts nothing: figures depend on the machine, and what else that does.
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
	"slices"
	"strings"
	"syscall"

	"remshell/tools/testbed"
)

func main() {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case meterArg, heardArg:
			os.Exit(meter(os.Args[2:], os.Args[1] == heardArg))
		case floorArg:
			os.Exit(floor(os.Args[2:]))
		case linesArg:
			os.Exit(writeLines(os.Args[2]))
		case crowdArg:
			os.Exit(launchCrowd(os.Args[2:]))
		case roundsArg:
			os.Exit(playRounds(os.Args[2:]))
		case busyArg:
			os.Exit(spin())
		case feedArg:
			os.Exit(feed(os.Args[2], os.Args[3:]))
		}
	}
	var b bench
	flag.StringVar(&b.ours, "mpiexec", "bin/mpiexec", "our `program`, from the root of the repository")
	flag.StringVar(&b.hydra, "hydra", "mpiexec.hydra", "Hydra's `program`")
	flag.StringVar(&b.mpirun, "mpirun", "mpirun.openmpi", "Open MPI's `program`")
	only := flag.String("only", "", "run cases with this `text` in their names")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := b.run(ctx, *only); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

// A bench is the programs that are compared and where they are run.
type bench struct {
	ours, hydra, mpirun string
	self                string // this program
	field               *testbed.Field
}

// run measures the cases whose names contain only, and prints the tables.
func (b *bench) run(ctx context.Context, only string) error {
	root, err := testbed.Repo()
	if err != nil {
		return err
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := find(&b.ours); err != nil {
		return err
	}
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	chosen := slices.DeleteFunc(slices.Clone(planCases), func(c planCase) bool { return !strings.Contains(c.name, only) })
	rows, err := b.plans(ctx, chosen)
	if err != nil {
		return err
	}
	fmt.Print(planTable(rows))
	crowds, err := b.crowds(ctx, only)
	if err != nil {
		return err
	}
	fmt.Print(crowdTable(crowds))
	scales, err := b.scales(ctx, only)
	if err != nil {
		return err
	}
	fmt.Print(scaleTable(scales))
	launches := slices.ContainsFunc(cases(b.ours, b.self, strings.Repeat("n,", manyHosts)), func(c testCase) bool { return strings.Contains(c.name, only) })
	swaps := slices.ContainsFunc(exchangeCases, func(c exchangeCase) bool { return strings.Contains(c.name(), only) })
	if launches || swaps {
		if err := b.compare(ctx, only); err != nil {
			return err
		}
	}
	return b.batches(ctx, only)
}

// compare measures our launches and those of its rivals on the hosts of a field.
func (b *bench) compare(ctx context.Context, only string) error {
	err := errors.Join(find(&b.hydra), find(&b.mpirun))
	if err != nil {
		return err
	}
	b.field, err = testbed.Up(ctx, testbed.Options{Hosts: manyHosts})
	if err != nil {
		return err
	}
	defer b.field.Down()
	fmt.Print("\n", machine(b.field.Kind), "\n")
	var rows []row
	var unmeasured []string
	for _, c := range cases(b.ours, b.self, b.field.Names()) {
		if !strings.Contains(c.name, only) {
			continue
		}
		fmt.Fprintf(os.Stderr, "bench: %s\n", c.name)
		r, err := b.measure(ctx, c)
		if failed := (*rivalError)(nil); errors.As(err, &failed) {
			unmeasured = append(unmeasured, fmt.Sprintf("- %s: not measured: %v\n", c.name, failed))
			continue
		}
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	if len(rows) > 0 {
		fmt.Print(table(rows), "\n", verdicts(rows))
	}
	fmt.Print(strings.Join(unmeasured, ""))
	swaps, err := b.exchanges(ctx, only)
	if err != nil {
		return err
	}
	fmt.Print(exchangeTable(swaps), "\nLoad average behind: ", load(), "\n")
	return nil
}

// find finds a program, before anything is built up.
func find(program *string) (err error) {
	if *program, err = exec.LookPath(*program); err != nil {
		return fmt.Errorf("%w; make bench as root on Debian installs and builds all that is needed", err)
	}
	return nil
}
