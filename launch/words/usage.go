/*
Package words is what users read of the ranks of a job: what they have used, what they are doing, to what they are bound, and what
they have left. All of it is made of values.
*/
package words

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"remshell/format"
	"remshell/job"
	"remshell/launch/supervise"
	"remshell/text"
)

// FormatUsage is what a job consumed, as --usage asks for it (RM-52); firsts are the ranks 0 of its groups.
func FormatUsage(id job.ID, wish job.EndPolicy, r job.Result, firsts []int) (told string) {
	switch wish.UsageReport {
	case "application":
		return aprunText(id, r)
	case "lines":
		return format.Resources(r.Usage.Job)
	case "rank":
		told = usageByNode(r) + usageByRank(r, firsts)
	default:
		told = usageByNode(r)
	}
	if len(r.Usage.Ranks) > 1 || wish.InBatchJob {
		told += format.Resources(r.Usage.Job)
	}
	return told
}

// usageByNode is what a job consumed, by node.
func usageByNode(r job.Result) string {
	var sum job.NodeTotal
	rows := [][]string{{"usage", "ranks", "wall", "user", "system", "peak memory"}}
	row := func(name string, t job.NodeTotal, memory string) {
		rows = append(rows, []string{name, fmt.Sprint(t.Ranks), secondsText(t.Usage.Wall), secondsText(t.Usage.User), secondsText(t.Usage.System), memory})
	}
	for i, h := range r.NodeTotals {
		memory := peakText(r.Usage.Nodes[i], h.Usage.MaxRSS)
		if h.PeakRank >= 0 {
			memory += fmt.Sprintf(" (rank %d)", h.PeakRank)
		}
		row(h.Node, h, memory)
		sum.Ranks += h.Ranks
		sum.Usage.Add(h.Usage)
	}
	if len(r.NodeTotals) > 1 {
		row("all", sum, peakText(r.Usage.Job, sum.Usage.MaxRSS))
	}
	return formatColumns(rows)
}

// usageByRank is what each rank consumed.
func usageByRank(r job.Result, firsts []int) string {
	rows := [][]string{{"rank", "host", "cput", "mem", "vmem", "wall", "exit"}}
	ends := make([]string, len(r.Usage.Ranks))
	for _, e := range r.Exits {
		if ends[e.Rank] = fmt.Sprint(e.Code); e.Signal != 0 {
			ends[e.Rank] = fmt.Sprintf("sig%d", e.Signal)
		}
	}
	nodes := make([]string, len(ends))
	if r.Starts != nil {
		for s := range r.Starts {
			nodes[s.Rank] = s.Node
		}
	}
	for rank, u := range r.Usage.Ranks {
		group, number := supervise.GroupOf(firsts, rank)
		rows = append(rows, []string{supervise.FormatRank(group, number), nodes[rank], secondsText(u.CPU), peakText(u, u.Mem), memoryText(u.VMem), secondsText(u.Wall), cmp.Or(ends[rank], "-")})
	}
	return formatColumns(rows)
}

// peakText is the most memory in words. Of what was not sampled only the largest process is known.
func peakText(u job.UsageTotal, largest int64) string {
	if u.Sampled || largest == 0 {
		return memoryText(max(u.Mem, largest))
	}
	return ">= " + memoryText(largest)
}

// memoryText is a size in words; of a process that was gone before one could look, it is not known.
func memoryText(bytes int64) string {
	if bytes == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}

func secondsText(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// formatColumns writes rows, whose cells others may have worded, under each other.
func formatColumns(rows [][]string) string {
	for _, row := range rows {
		for i, cell := range row {
			row[i] = format.EscapeField(cell)
		}
	}
	return text.Columns("  ", rows)
}

// aprunText is what aprun tells at the end (aprun.md 6): the exit codes and signals that were not well, in the
// order in which they came, and what all ranks consumed. Times are summed up, memory is the largest rank's.
func aprunText(id job.ID, r job.Result) string {
	var codes, signals []string
	add := func(to *[]string, word string) {
		if !slices.Contains(*to, word) {
			*to = append(*to, word)
		}
	}
	var sum job.Usage
	for _, h := range r.NodeTotals {
		sum.Add(h.Usage)
	}
	for _, e := range r.Exits {
		switch {
		case e.Signal != 0:
			add(&signals, job.Signal(e.Signal).Description())
		case e.Code != 0:
			add(&codes, fmt.Sprint(e.Code))
		}
	}
	told := ""
	if codes != nil {
		told += "exit codes: " + strings.Join(codes, ", ") + "\n"
	}
	if signals != nil {
		told += "exit signals: " + strings.Join(signals, ", ") + "\n"
	}
	return told + fmt.Sprintf("Application %s resources: utime %.0fs, stime %.0fs, rss %dkb, inblocks %d, outblocks %d\n",
		id, sum.User.Seconds(), sum.System.Seconds(), sum.MaxRSS>>10, sum.InBlocks, sum.OutBlocks)
}
