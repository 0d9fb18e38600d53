//go:build linux

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remshell/batch"
)

// Each starter is chosen by its words of -launcher, and rejected outside of a job of its batch system.
func TestLauncherWords(t *testing.T) {
	p := newFakeServer(t, nil)
	for _, s := range batch.Systems {
		for _, word := range s.LauncherWords() {
			printed, code := p.runMpiexec("-launcher", word, "-n", "1", "-host", "n1", "true")
			if want := fmt.Sprintf("mpiexec: -launcher %s: mpiexec does not run inside a job of %s\n  hint: %s", word, s.Title, s.Within); !strings.HasPrefix(printed, want) || code != 125 {
				t.Errorf("exit %d: %s\nwant 125: %s", code, printed, want)
			}
		}
	}
}

// A program of the batch system that a signal kills is run again, at most batchToolTries times in all.
func TestAProgramThatASignalEndsIsAskedAgain(t *testing.T) {
	for kills, want := range map[int]string{0: "CANCELLED\n", 1: "CANCELLED\n", 2: "CANCELLED\n", 3: ""} {
		dir := t.TempDir()
		program := filepath.Join(dir, "squeue")
		script := fmt.Sprintf("#!/bin/sh\necho >>%[1]s/calls\n[ $(wc -l <%[1]s/calls) -gt %[2]d ] || kill -TERM $$\necho CANCELLED\n", dir, kills)
		if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		text, err := runBatchProgram(program)
		calls, _ := os.ReadFile(filepath.Join(dir, "calls"))
		if text != want || (err != nil) != (want == "") || len(calls) != min(kills+1, batchToolTries) {
			t.Errorf("killed %d times: %q, %v, after %d calls; want %q", kills, text, err, len(calls), want)
		}
	}
}
