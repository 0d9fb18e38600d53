package launch

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"remshell/job"
)

// applicationText is what aprun tells at the end (aprun.md 6): the exit codes and signals that were not well, in the
// order in which they came, and what all ranks consumed. Times are summed up, memory is the largest rank's.
func applicationText(id job.ID, r job.Result) string {
	var codes, signals []string
	add := func(to *[]string, word string) {
		if !slices.Contains(*to, word) {
			*to = append(*to, word)
		}
	}
	var sum job.Usage
	for _, h := range r.Hosts {
		sum.Add(h.Usage)
	}
	for _, e := range r.Exits {
		switch {
		case e.Signal != 0:
			name := syscall.Signal(e.Signal).String()
			add(&signals, strings.ToUpper(name[:1])+name[1:])
		case e.Code != 0:
			add(&codes, fmt.Sprint(e.Code))
		}
	}
	text := ""
	if codes != nil {
		text += "exit codes: " + strings.Join(codes, ", ") + "\n"
	}
	if signals != nil {
		text += "exit signals: " + strings.Join(signals, ", ") + "\n"
	}
	return text + fmt.Sprintf("Application %s resources: utime %.0fs, stime %.0fs, rss %dkb, inblocks %d, outblocks %d\n",
		id, sum.User.Seconds(), sum.System.Seconds(), sum.MaxRSS>>10, sum.InBlocks, sum.OutBlocks)
}
