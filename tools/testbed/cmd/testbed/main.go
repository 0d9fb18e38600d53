//go:build linux

// Command testbed creates clusters of test hosts on this machine and runs commands on them.
//
//	testbed up 4               hosts n1 to n4; they stay until testbed down
//	testbed exec ssh n1 date   a command on the head, which can reach the hosts
//	testbed on n1 ps ax        a command inside a host, not through ssh
//	testbed down               removes the test cluster
//	testbed programs           compiles the MPI programs of testdata/mpi
//
// See package testbed for a description of the hosts.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"remshell/tools/testbed"
)

type options struct {
	Up       upCmd       `cmd:"" help:"Bring a test cluster up."`
	Exec     execCmd     `cmd:"" help:"Run a command on the head of a test cluster."`
	On       onCmd       `cmd:"" help:"Run a command inside a host (or head), as root and without ssh."`
	Down     downCmd     `cmd:"" help:"Take a test cluster down, and remove the leftovers of killed ones."`
	Programs programsCmd `cmd:"" help:"Compile the MPI programs of testdata/mpi into build/programs."`
	Name     string      `default:"default" help:"Name of the test cluster."`
}

type upCmd struct {
	Hosts       int    `arg:"" help:"Number of hosts."`
	Kind        string `enum:",namespaces,loopback,in-process" default:"" help:"How to make the hosts: namespaces, loopback or in-process (default: the first that this machine allows)."`
	SharedHome  bool   `help:"One home folder for head and hosts, and bin/ visible on the hosts."`
	MaxStartups string `help:"MaxStartups of the hosts' sshd."`
	Shell       string `help:"Login shell of root on the hosts."`
	Slurm       bool   `help:"Run Slurm in the cluster, for sbatch, salloc and srun on the head."`
	SGE         bool   `help:"Run Grid Engine in the cluster, for qsub on the head."`
	Condor      bool   `help:"Run HTCondor in the cluster, for condor_submit on the head as the user somebody."`
	Serve       bool   `hidden:"" help:"Keep running until SIGTERM; for kind in-process, whose hosts are served by this process."`
}

func (c *upCmd) Run(o *options) error {
	opts := testbed.Options{
		Name: o.Name, Hosts: c.Hosts, Kind: testbed.Kind(c.Kind), Keep: !c.Serve,
		SharedHome: c.SharedHome, MaxStartups: c.MaxStartups, Shell: c.Shell, Slurm: c.Slurm, SGE: c.SGE, Condor: c.Condor,
	}
	if c.Serve {
		return serve(opts)
	}
	start := time.Now()
	f, err := testbed.Up(context.Background(), opts)
	if errors.Is(err, testbed.ErrNeedsProcess) {
		f, err = c.background(o)
	}
	if err != nil {
		return err
	}
	return printUsage(f, time.Since(start))
}

// serve creates the cluster, prints "up", and removes the cluster when it receives SIGTERM or SIGINT.
func serve(opts testbed.Options) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	f, err := testbed.Up(ctx, opts)
	if err != nil {
		return err
	}
	fmt.Println("up")
	<-ctx.Done()
	return f.Down()
}

// background starts this program again with --serve, in its own session, and waits until the new process prints
// "up".
func (c *upCmd) background(o *options) (*testbed.Cluster, error) {
	cmd := exec.Command("/proc/self/exe", append(os.Args[1:], "--serve", "--kind=in-process")...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := fmt.Fscanln(out, new(string)); err != nil {
		return nil, errors.Join(errors.New("the test cluster did not come up"), cmd.Wait())
	}
	return testbed.Open(o.Name)
}

// printUsage prints the cluster's hosts, how long the cluster took to start (startTime), and the commands with which to
// use the hosts.
func printUsage(f *testbed.Cluster, startTime time.Duration) error {
	self, name := "go run ./tools/testbed/cmd/testbed", ""
	if exe, err := os.Executable(); err == nil && !strings.Contains(exe, "go-build") {
		self = exe
	}
	if f.Name != "default" {
		name = " --name " + f.Name
	}
	first, last := f.Hosts[0], f.Hosts[len(f.Hosts)-1]
	hosts := f.Names()
	if len(f.Hosts) > 8 {
		hosts = fmt.Sprintf("'n[1-%d]'", len(f.Hosts))
	}
	fmt.Printf(`test cluster %q is up: %d hosts (%s) in %.1f s
  hosts       %s (%s:%d) to %s (%s:%d)
  on the head %s exec%s ssh %s hostname
              %s exec%s bin/mpiexec -hosts %s -n 4 build/programs/hello
  in a host   %s on%s %s ps ax
  the end     %s down%s
`, f.Name, len(f.Hosts), f.Kind, startTime.Seconds(), first.Name, first.Addr, first.Port, last.Name, last.Addr, last.Port,
		self, name, first.Name, self, name, hosts, self, name, first.Name, self, name)
	if _, err := os.Stat(filepath.Join(f.Repo, "build", "programs", "hello")); err != nil {
		fmt.Printf("  hello is not compiled yet: %s programs\n", self)
	}
	return nil
}

type execCmd struct {
	Command []string `arg:"" passthrough:"" help:"Command and arguments."`
}

func (c *execCmd) Run(o *options) error {
	f, err := testbed.Open(o.Name)
	if err != nil {
		return err
	}
	return execCommand(f.Command(context.Background(), nil, c.Command[0], c.Command[1:]...))
}

type onCmd struct {
	Host    string   `arg:"" help:"n1, n2, ... or head."`
	Command []string `arg:"" passthrough:"" help:"Command and arguments."`
}

func (c *onCmd) Run(o *options) error {
	f, err := testbed.Open(o.Name)
	if err != nil {
		return err
	}
	return execCommand(f.On(context.Background(), c.Host, c.Command[0], c.Command[1:]...))
}

// execCommand replaces this process with a command, so that signals, terminal and exit status are those of the
// command. It returns only if executing the command fails.
func execCommand(cmd *exec.Cmd) error {
	if cmd.Err != nil {
		return cmd.Err
	}
	return fmt.Errorf("%s: %w", cmd.Path, syscall.Exec(cmd.Path, cmd.Args, cmd.Env))
}

type downCmd struct{}

func (c *downCmd) Run(o *options) error {
	removed, err := testbed.RemoveDead()
	for _, name := range removed {
		fmt.Printf("test cluster %q: removed leftovers\n", name)
	}
	f, openErr := testbed.Open(o.Name)
	if openErr != nil {
		return err // not up: nothing to do
	}
	return errors.Join(err, f.Down())
}

type programsCmd struct{}

func (c *programsCmd) Run() error {
	repo, err := testbed.Repo()
	if err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(repo, "testdata", "programs.sh"), filepath.Join(repo, "build"))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

func main() {
	var o options
	ctx := kong.Parse(&o, kong.Name("testbed"), kong.Description("Test hosts on this machine."))
	if err := ctx.Run(&o); err != nil {
		var h interface{ Hint() string }
		if errors.As(err, &h) && h.Hint() != "" {
			err = fmt.Errorf("%w; %s", err, h.Hint())
		}
		fmt.Fprintf(os.Stderr, "testbed: %v\n", err)
		os.Exit(1)
	}
}
