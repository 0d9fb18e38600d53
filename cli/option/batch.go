package option

import (
	"fmt"
	"strings"
	"time"
)

// A BatchOption is what one --batch-option says. Its zero value says nothing.
type BatchOption struct {
	Text      string        // as it was given
	WholeJob  bool          // scope=job: inside a step of Slurm, use all of the job
	Margin    time.Duration // margin=TIME: end the job so long before the batch system does
	Fallback  bool          // fallback=ssh: reach all hosts by ssh if the batch system's starter fails on one
	KillDelay time.Duration // kill-delay=TIME: what the batch system leaves between SIGTERM and SIGKILL
}

// Choices are what it may begin with.
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

// BatchOption is what all --batch-option say together: of each key the last one.
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
