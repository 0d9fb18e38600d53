package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"remshell/cli"
	"remshell/test/jsonschema"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes the test binary mpiexec and its helper in the scripts of TestScripts.
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
var scriptCommands = map[string]func(){"mpiexec": main, "mpijob": main}

// catchIgnoredSignals catches the signals that this process was started to ignore, as by nohup. So mpiexec does not ignore
// them: exec resets a caught signal to its default.
func catchIgnoredSignals() {
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
}

// The scripts show what a user types and reads, on this machine alone. Those of a feature are in its folder.
func TestScripts(t *testing.T) {
	var files []string
	for _, folder := range []string{"testdata/script", "feature/*/testdata"} {
		found, err := filepath.Glob(folder + "/*.txtar")
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d scripts, %v", folder, len(found), err)
		}
		files = append(files, found...)
	}
	testscript.Run(t, testscript.Params{Files: files, Cmds: map[string]func(*testscript.TestScript, bool, []string){"schema": checkSchema}, Setup: func(e *testscript.Env) error {
		e.Setenv("GORACE", "atexit_sleep_ms=0")       // else every mpiexec and helper sleeps a second
		ledger := filepath.Join(e.WorkDir, ".ledger") // scripts run in parallel, each with a ledger of its own
		e.Setenv("MPIEXEC_LEDGER", ledger)
		return os.Mkdir(ledger, 0o755)
	}})
}

// checkSchema is the script command "schema NAME FILE": FILE, or stdout, is what doc/json/NAME.schema.json describes.
func checkSchema(ts *testscript.TestScript, not bool, args []string) {
	if not || len(args) != 2 {
		ts.Fatalf("usage: schema NAME FILE")
	}
	ts.Check(jsonschema.Check(args[0], []byte(ts.ReadFile(args[1]))))
}
