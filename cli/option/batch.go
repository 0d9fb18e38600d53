package option

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A BatchOption is the parsed value of one --batch-option, or the merged value of several. The zero value sets
// nothing.
type BatchOption struct {
	Text      string        // as given
	WholeJob  bool          // scope=job: inside a step of Slurm, use the whole job
	Margin    time.Duration // margin=TIME: end the job this long before the batch system does
	Fallback  bool          // fallback=ssh: reach all hosts by ssh if the batch system's launcher fails on one
	KillDelay time.Duration // kill-delay=TIME: the batch system's pause between SIGTERM and SIGKILL
}

// A batchKey is a key that --batch-option accepts, and the function that stores its value.
type batchKey struct {
	name, value string // value: the usual one, or a placeholder
	set         func(b *BatchOption, value string) error
}

var batchKeys = []batchKey{
	{"scope", "job", func(b *BatchOption, value string) error {
		if b.WholeJob = strings.EqualFold(value, "job"); !b.WholeJob && !strings.EqualFold(value, "step") {
			return fmt.Errorf("%q is not one of step, job", value)
		}
		return nil
	}},
	{"margin", "TIME", func(b *BatchOption, value string) (err error) {
		b.Margin, err = batchTime(value)
		return err
	}},
	{"kill-delay", "TIME", func(b *BatchOption, value string) (err error) {
		b.KillDelay, err = batchTime(value)
		return err
	}},
	{"fallback", "ssh", func(b *BatchOption, value string) error {
		if b.Fallback = strings.EqualFold(value, "ssh"); !b.Fallback {
			return fmt.Errorf("%q is not allowed; the only value is ssh", value)
		}
		return nil
	}},
}

func batchTime(value string) (time.Duration, error) {
	d, err := parseSeconds(value)
	if err == nil && d == 0 {
		err = fmt.Errorf("%q is too short; the time must be longer than 0", value)
	}
	return d, err
}

// Choices returns the keys for shell completion. Each is followed by its possible value or a placeholder.
func (BatchOption) Choices() (words []string) {
	for _, k := range batchKeys {
		words = append(words, k.name+"="+k.value)
	}
	return words
}

// UnmarshalText parses one KEY=VALUE pair, or several pairs separated by commas.
func (b *BatchOption) UnmarshalText(text []byte) error {
	*b = BatchOption{Text: string(text)}
	return b.set(b.Text)
}

// set parses text and sets the keys that it contains.
func (b *BatchOption) set(text string) error {
	for pair := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(pair, "=")
		i := slices.IndexFunc(batchKeys, func(k batchKey) bool { return strings.EqualFold(k.name, name) })
		if i < 0 {
			var names []string
			for _, k := range batchKeys {
				names = append(names, k.name+"=")
			}
			return fmt.Errorf("%q is not one of %s", pair, strings.Join(names, ", "))
		}
		if err := batchKeys[i].set(b, value); err != nil {
			return fmt.Errorf("%s: %w", batchKeys[i].name, err)
		}
	}
	return nil
}

// BatchOption merges all --batch-option options of the command line. If a key is given twice, the last value takes
// effect.
func (j JobOptions) BatchOption() (all BatchOption) {
	for _, one := range j.Batch {
		all.set(one.Text) // UnmarshalText has found no error in it
		all.Text = one.Text
	}
	return all
}

// BatchOption returns the --batch-option of the job. Outside a batch job it ignores values from variables and the
// configuration, because users set these once for all their jobs.
func (l Line) BatchOption(inBatchJob bool) BatchOption {
	if g, given := l.Origin("batch-option"); given && g.precedence >= fromEnvironment && !inBatchJob {
		return BatchOption{}
	}
	return l.Job.BatchOption()
}

// BatchOptionError returns an error about a key of --batch-option. The error names the variable, or the line of a file,
// that has set the key.
func (l Line) BatchOptionError(key string, err error) error {
	from := ""
	for _, g := range l.given {
		if g.Name == "batch-option" && strings.Contains(","+strings.ToLower(g.Value), ","+key+"=") {
			from = g.source
		}
	}
	return withSource(from, err)
}
