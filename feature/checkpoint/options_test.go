package checkpoint

import (
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/cli/option"
	"remshell/job"
	"remshell/usererr"
)

// signals are the numbers of a system with few signals.
func signals(name string) int { return map[string]int{"SIGUSR1": 10, "SIGUSR2": 12}[name] }

// The options say how and when the program is asked. SIGUSR1 is the default only if there are times at which it is sent
// (SV-13). Names are relative to the working directory.
func TestPolicyOfOptions(t *testing.T) {
	const grace = job.DefaultCheckpointGrace
	for args, want := range map[string]job.CheckpointPolicy{
		"":                   {},
		"--ckpt-grace 3":     {},
		"--ckpt-dir d":       {Dir: "/w/d", Grace: grace},
		"--ckpt-every 2":     {Signal: job.SIGUSR1, Every: 2 * time.Second, Grace: grace},
		"--ckpt-before 1min": {Signal: job.SIGUSR1, BeforeEnd: time.Minute, Grace: grace},
		"--ckpt-before 60 --ckpt-signal USR2 --ckpt-done /d --ckpt-grace 3": {Signal: 12, BeforeEnd: time.Minute, DoneFile: "/d", Grace: 3 * time.Second},
		"--ckpt-cmd save --ckpt-done d --ckpt-required":                     {Command: "save", DoneFile: "/w/d", Grace: grace, Required: true},
	} {
		line, err := option.Mpiexec(signals).Parse(append(strings.Fields(args), "a"), option.Sources{})
		if got := policyOf(option.ValuesOf[Options](line), "/w"); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", args, got, err, want)
		}
	}
}

// Ranks learn the folder and the signal, by its name as for kill and trap (SV-10).
func TestVariablesOfRanks(t *testing.T) {
	for want, policy := range map[string]job.CheckpointPolicy{
		"":                         {Command: "save"},
		"MPIEXEC_CKPT_DIR=/d":      {Dir: "/d"},
		"MPIEXEC_CKPT_SIGNAL=USR1": {Signal: job.SIGUSR1},
		"MPIEXEC_CKPT_DIR=/d MPIEXEC_CKPT_SIGNAL=40": {Dir: "/d", Signal: 40},
	} {
		if got := strings.Join(rankVariables(policy), " "); got != want {
			t.Errorf("%+v: %s; want %s", policy, got, want)
		}
	}
}

// mpijob checkpoint is mpiexec --checkpoint.
func TestWordOfMpijob(t *testing.T) {
	table := option.Mpijob(option.Mpiexec(signals))
	line, args, err := table.Parse([]string{"checkpoint", "17-a", "n1"}, option.Sources{})
	if want := []string{"--checkpoint=17-a", "n1"}; err != nil || !slices.Equal(args, want) || line.Query != (option.JobQuery{Command: "checkpoint", Job: "17-a"}) {
		t.Errorf("%q, %+v, %v", args, line.Query, err)
	}
	if text, err := table.HelpOn("checkpoint"); err != nil || !strings.Contains(strings.ReplaceAll(text, "\n", " "), "JOB must have been started with --ckpt-signal,") {
		t.Errorf("%v\n%s", err, text)
	}
	if _, _, err = table.Parse([]string{"ckpt", "17-a"}, option.Sources{}); usererr.Hint(err) != "mpijob checkpoint JOB: request a checkpoint from a job" {
		t.Errorf("%v; %s", err, usererr.Hint(err))
	}
}
