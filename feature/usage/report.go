package usage

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

// formatUsage returns the usage of a job in one of the forms of --usage (rule RM-52). firsts contains, for each group,
// the job-wide number of the group's rank 0.
func formatUsage(form string, req job.Request, r job.Result, firsts []int) (report string) {
	switch form {
	case "application":
		return aprunText(req.Job, r)
	case "lines":
		return formatResources(r.Usage.Job)
	case "rank":
		report = usageByNode(r) + usageByRank(r, firsts)
	default:
		report = usageByNode(r)
	}
	if g := r.Gang; g != nil {
		report += fmt.Sprintf("gang: the ranks ran for %s and were stopped for %s (%s)\n", secondsText(g.Ran), secondsText(g.Stopped), text.Count(g.Switches, "time"))
	}
	if len(r.Usage.Ranks) > 1 || req.EndPolicy.InBatchJob {
		report += formatResources(r.Usage.Job)
	}
	return report
}

// usageByNode returns a table of the usage by node.
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
	return format.Columns(rows)
}

// usageByRank returns a table of the usage by rank. firsts contains, for each group, the job-wide number of the group's
// rank 0.
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
	return format.Columns(rows)
}

// peakText formats the largest amount of memory in use. Without samples it formats maxRSS, the memory of the largest
// process, as a lower bound.
func peakText(u job.UsageTotal, maxRSS int64) string {
	if u.Sampled || maxRSS == 0 {
		return memoryText(max(u.Mem, maxRSS))
	}
	return ">= " + memoryText(maxRSS)
}

// memoryText formats a size in bytes. It returns "-" for 0, because a process that ended before it was sampled has no
// size.
func memoryText(bytes int64) string {
	if bytes == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}

func secondsText(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// aprunText returns the lines that aprun prints at the end (aprun.md 6). They contain the exit codes and signals of
// failed ranks, in the order of their ends, and the usage of all ranks. Times are sums over all ranks, and memory is
// the memory of the largest rank.
func aprunText(id job.ID, r job.Result) string {
	var codes, signals []string
	add := func(to *[]string, item string) {
		if !slices.Contains(*to, item) {
			*to = append(*to, item)
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
	report := ""
	if codes != nil {
		report += "exit codes: " + strings.Join(codes, ", ") + "\n"
	}
	if signals != nil {
		report += "exit signals: " + strings.Join(signals, ", ") + "\n"
	}
	return report + fmt.Sprintf("Application %s resources: utime %.0fs, stime %.0fs, rss %dkb, inblocks %d, outblocks %d\n",
		id, sum.User.Seconds(), sum.System.Seconds(), sum.MaxRSS>>10, sum.InBlocks, sum.OutBlocks)
}
