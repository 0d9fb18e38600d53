//go:build linux

/*
Package launchtest runs jobs in tests. The launch runs in the test's process. Each node has a real helper:
another process of the test's program, which starts real ranks.

	func TestMain(m *testing.M) { launchtest.Main(m) }

	func TestX(t *testing.T) {
		r := launchtest.NewRun(2, "echo $PMI_RANK", "a", "b:4")   // two ranks of a script, on a and on b with four slots
		r.Req.TimeLimits.Run = time.Second                        // any part of the request
		result, err := r.Do(t)                                    // its output is in r.Out and r.Err
	}

The ranks of NewPMIRun use PMI as a script says. RecordJobs checks which kinds of messages jobs cause. A
test has only the features whose packages it imports. In a feature's own test that is this feature alone.
*/
package launchtest

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"remshell/helper"
	"remshell/limits"
	"remshell/test/pmitest"
	"remshell/test/pmixtest"
)

// PMIMark is the environment variable that makes the test's program a rank that runs a script of PMI
// commands.
const PMIMark = "TEST_RANK_OF_PMI"

// PMIxMark is the environment variable that makes the test's program a rank that sends messages to its
// PMIx server. The messages are a script of pmixtest.Client, in an argument or on stdin.
const PMIxMark = "TEST_RANK_OF_PMIX"

// Main is the TestMain of a package whose tests run jobs. It also runs as the helper of the tests' nodes,
// and as some of the ranks: these are real processes of the test's program.
func Main(m *testing.M) {
	if os.Getenv(PMIMark) != "" {
		if err := pmitest.RunScript(pmitest.ScriptOf(os.Args[1], os.Getenv), os.Getenv, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv(PMIxMark) != "" {
		if err := runPMIxScript(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if name := os.Getenv("TEST_HELPER_NODE"); name != "" {
		os.Unsetenv("TEST_HELPER_NODE")
		conn := struct {
			io.Reader
			io.WriteCloser
		}{os.NewFile(uintptr(dup(0)), "in"), os.NewFile(uintptr(dup(1)), "out")}
		signals := make(chan os.Signal, 8)
		signal.Notify(signals, syscall.SIGTERM)
		sys := helper.System{Root: machine{os.DirFS("/"), name}, Environ: os.Environ(), Signals: signals}
		if name == "fast" {
			sys.Now = func() time.Time { return time.Now().Add(FastClock) }
		}
		if dir := os.Getenv(ClockDir); dir != "" {
			sys.Now = func() time.Time { return time.Now().Add(readClock(dir, name)) }
		}
		if name == "narrow" {
			sys.Limits = func() (limits.Map, error) { return limits.Map{limits.HostVMem: 4096}, nil }
		}
		helper.Serve(context.Background(), conn, sys)
		return
	}
	os.Exit(m.Run())
}

func runPMIxScript() error {
	client, err := pmixtest.NewClient(os.Getenv)
	if err != nil {
		return err
	}
	var script io.Reader = os.Stdin
	if len(os.Args) > 1 {
		script = strings.NewReader(os.Args[1])
	}
	return client.RunScript(script, os.Stdout)
}

// FastClock is how far the clock of the node named "fast" is ahead.
const FastClock = 90 * time.Second

// ClockDir is the environment variable of helpers whose clocks a test sets with SetClock.
const ClockDir = "TEST_CLOCK_DIR"

// SetClock sets how far the clock of a node is ahead. dir is the value of ClockDir. A running helper notices the change.
func SetClock(dir, node string, ahead time.Duration) error {
	next := filepath.Join(dir, "."+node)
	if err := os.WriteFile(next, []byte(ahead.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(dir, node))
}

func readClock(dir, node string) time.Duration {
	text, _ := os.ReadFile(filepath.Join(dir, node))
	ahead, _ := time.ParseDuration(string(text))
	return ahead
}

// dup moves a standard stream to another descriptor, as the real helper does. A write to a broken pipe
// then returns an error instead of raising SIGPIPE.
func dup(fd int) int {
	copied, err := syscall.Dup(fd)
	if err != nil {
		panic(err)
	}
	syscall.CloseOnExec(copied)
	null, _ := os.OpenFile("/dev/null", os.O_RDWR, 0)
	syscall.Dup3(int(null.Fd()), fd, 0)
	null.Close()
	return copied
}

// A machine gives this machine another name, so that several helpers on it are several nodes.
type machine struct {
	fs.FS
	name string
}

func (m machine) Open(name string) (fs.File, error) {
	if name == "proc/sys/kernel/random/boot_id" {
		machine, _, _ := strings.Cut(m.name, "~") // "a~1" and "a~2" are names of one machine
		return fstest.MapFS{name: {Data: []byte(machine)}}.Open(name)
	}
	return m.FS.Open(name)
}
