package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"remshell/cli"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes the test binary mpiexec and its helper in the scripts of testdata/script.
func TestMain(m *testing.M) {
	if os.Getenv("MPIEXEC_TEST_STOP") == "never" {
		stopProcess = func() { // ^Z hangs the supervising loop
			fmt.Println("the loop hangs")
			select {}
		}
	}
	if len(os.Args) > 1 && cli.IsHelper(os.Args[1]) || os.Getenv("MPIEXEC_TEST_MAIN") != "" {
		main()
	}
	catchIgnoredSignals()
	testscript.Main(m, scriptCommands)
}

// scriptCommands are the programs that scripts may call.
var scriptCommands = map[string]func(){"mpiexec": main}

// catchIgnoredSignals catches the signals that this process was started to ignore, as by nohup. So mpiexec does not ignore
// them: exec resets a caught signal to its default.
func catchIgnoredSignals() {
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
}

// The scripts show what a user types and reads, on this machine alone.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Setup: func(e *testscript.Env) error {
		e.Setenv("GORACE", "atexit_sleep_ms=0")       // else every mpiexec and helper sleeps a second
		ledger := filepath.Join(e.WorkDir, ".ledger") // scripts run in parallel, each with a ledger of its own
		e.Setenv("MPIEXEC_LEDGER", ledger)
		return os.Mkdir(ledger, 0o755)
	}})
}
