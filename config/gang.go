package config

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"remshell/job"
)

// readGang reads the table [gang]. This table says how jobs with --gang take turns on the node on which the file
// is.
func (r *reader) readGang(entries map[string]any) {
	t := &r.cluster.Gang
	*t = job.DefaultGangTerms
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		line := r.lines.lineInTable("gang", key)
		switch key {
		case "parties":
			n, is := entries[key].(int64)
			if t.Parties = int(n); !is || n < 1 || n > job.MaxParties {
				r.addFault(line, "parties: %s is not a number from 1 to %d", valueText(entries[key]), job.MaxParties)
			}
		case "slice":
			text, is := entries[key].(string)
			if n, number := entries[key].(int64); number {
				text, is = fmt.Sprint(n), true
			}
			var err error
			if t.Slice, err = ParseSlice(text); err != nil || !is {
				r.addFault(line, "slice: %s is not a time from %v to %v, such as \"10s\"", valueText(entries[key]), job.MinSlice, job.MaxSlice)
			}
		default:
			r.addFault(line, "unknown key %q in [gang]; allowed: parties and slice", key)
		}
	}
}

// ParseSlice parses the length of a time slice, such as 10s, 2m or 30. A number without a unit is in seconds.
func ParseSlice(text string) (time.Duration, error) {
	length, err := time.ParseDuration(text)
	if err != nil {
		length, err = time.ParseDuration(text + "s")
	}
	if err != nil || length < job.MinSlice || length > job.MaxSlice {
		return 0, fmt.Errorf("%q is not a time from %v to %v, such as 10s", text, job.MinSlice, job.MaxSlice)
	}
	return length, nil
}
