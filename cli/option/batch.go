package option

import (
	"fmt"
	"strings"
	"time"
)

// A BatchOption is the value of one --batch-option. The zero value sets nothing.
type BatchOption struct {
	Text      string        // as given
	WholeJob  bool          // scope=job: inside a step of Slurm, use the whole job
	Margin    time.Duration // margin=TIME: end the job this long before the batch system does
	Fallback  bool          // fallback=ssh: reach all hosts by ssh if the batch system's launcher fails on one
	KillDelay time.Duration // kill-delay=TIME: the batch system's pause between SIGTERM and SIGKILL
}

// Choices returns the keys, each with its value or a placeholder.
func (BatchOption) Choices() []string {
	return []string{"scope=job", "margin=TIME", "kill-delay=TIME", "fallback=ssh"}
}

func (b *BatchOption) UnmarshalText(text []byte) (err error) {
	*b = BatchOption{Text: string(text)}
	key, value, _ := strings.Cut(b.Text, "=")
	switch strings.ToLower(key) {
	case "scope":
		if b.WholeJob = value == "job"; !b.WholeJob && value != "step" {
			err = fmt.Errorf("scope: %q is not one of step, job", value)
		}
	case "fallback":
		if b.Fallback = value == "ssh"; !b.Fallback {
			err = fmt.Errorf("fallback: %q is not ssh", value)
		}
	case "margin":
		b.Margin, err = batchTime(key, value)
	case "kill-delay":
		b.KillDelay, err = batchTime(key, value)
	default:
		err = fmt.Errorf("%q is not one of scope=, margin=, kill-delay=, fallback=", b.Text)
	}
	return err
}

func batchTime(key, value string) (time.Duration, error) {
	d, err := parseSeconds(value)
	if err == nil && d == 0 {
		err = fmt.Errorf("%q is too short; more than 0", value)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", key, err)
	}
	return d, nil
}

// BatchOption merges all --batch-option options: for each key the last one wins.
func (j JobOptions) BatchOption() (all BatchOption) {
	for _, one := range j.Batch {
		key, _, _ := strings.Cut(strings.ToLower(one.Text), "=")
		switch all.Text = one.Text; key {
		case "scope":
			all.WholeJob = one.WholeJob
		case "fallback":
			all.Fallback = one.Fallback
		case "margin":
			all.Margin = one.Margin
		default:
			all.KillDelay = one.KillDelay
		}
	}
	return all
}
