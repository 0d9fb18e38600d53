package option

import (
	"testing"
	"time"
)

// Several --batch-option are merged; the last value of each key wins.
func TestBatchOption(t *testing.T) {
	line, err := Mpiexec(linuxSignals).Parse([]string{"--batch-option", "margin=60", "--batch-option=scope=job", "--batch-option", "KILL-DELAY=1:00:00", "--batch-option", "fallback=ssh", "--batch-option", "margin=1m30s", "a"}, Sources{})
	got := line.Job.BatchOption()
	if got.Text = ""; err != nil || got != (BatchOption{WholeJob: true, Fallback: true, Margin: 90 * time.Second, KillDelay: time.Hour}) {
		t.Errorf("%+v, %v", got, err)
	}
	for value, want := range map[string]string{
		"scope=job,x=": `--batch-option: "x=" is not one of scope=, margin=, kill-delay=, fallback=`,
		"scope=all":    `--batch-option: scope: "all" is not one of step, job`,
		"margin=soon":  `--batch-option: margin: "soon" is not a time such as 90, 1h30m or 01:30:00`,
		"fallback=rsh": `--batch-option: fallback: "rsh" is not allowed; the only value is ssh`,
		"margin=0":     `--batch-option: margin: "0" is too short; the time must be longer than 0`,
		"kill-delay":   `--batch-option: kill-delay: "" is not a time such as 90, 1h30m or 01:30:00`,
		"rankfile=yes": `--batch-option: "rankfile=yes" is not one of scope=, margin=, kill-delay=, fallback=`,
	} {
		if _, err := Mpiexec(linuxSignals).Parse([]string{"--batch-option", value, "a"}, Sources{}); err == nil || err.Error() != want {
			t.Errorf("%s: %v\nwant %s", value, err, want)
		}
	}
}

// One value may have several keys, and words in any case.
func TestABatchOptionWithSeveralKeysInAnyCase(t *testing.T) {
	for _, from := range []Sources{{}, {Environ: []string{"MPIEXEC_BATCH_OPTION=scope=JOB,margin=10,fallback=SSH"}}} {
		args := []string{"a"}
		if from.Environ == nil {
			args = []string{"--batch-option", "scope=JOB,margin=10,fallback=SSH", "a"}
		}
		line, err := Mpiexec(linuxSignals).Parse(args, from)
		got := line.Job.BatchOption()
		if got.Text = ""; err != nil || got != (BatchOption{WholeJob: true, Fallback: true, Margin: 10 * time.Second}) {
			t.Errorf("%q: %+v, %v", args, got, err)
		}
	}
}
