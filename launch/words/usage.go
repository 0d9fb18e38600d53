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

	"remshell/job"
	"remshell/launch/supervise"
	"remshell/show"
	"remshell/text"
)

// Usage is what a job consumed, as --usage asks for it (RM-52); firsts are the ranks 0 of its groups.
func Usage(id job.ID, wish job.Ends, r job.Result, firsts []int) (told string) {
	switch wish.Usage {
	case "application":
		return application(id, r)
	case "lines":
		return show.Resources(r.Used.All)
	case "rank":
		told = byNode(r) + byRank(r, firsts)
	default:
		told = byNode(r)
	}
	if len(r.Used.Ranks) > 1 || wish.Batch {
		told += show.Resources(r.Used.All)
	}
	return told
}

// byNode is what a job consumed, by node.
func byNode(r job.Result) string {
	var sum job.Total
	rows := [][]string{{"usage", "ranks", "wall", "user", "system", "peak memory"}}
	row := func(name string, t job.Total, memory string) {
		rows = append(rows, []string{name, fmt.Sprint(t.Ranks), seconds(t.Usage.Wall), seconds(t.Usage.User), seconds(t.Usage.System), memory})
	}
	for i, h := range r.Hosts {
		memory := peak(r.Used.Nodes[i], h.Usage.MaxRSS)
		if h.Peak >= 0 {
			memory += fmt.Sprintf(" (rank %d)", h.Peak)
		}
		row(h.Node, h, memory)
		sum.Ranks += h.Ranks
		sum.Usage.Add(h.Usage)
	}
	if len(r.Hosts) > 1 {
		row("all", sum, peak(r.Used.All, sum.Usage.MaxRSS))
	}
	return columns(rows)
}

// byRank is what each rank consumed.
func byRank(r job.Result, firsts []int) string {
	rows := [][]string{{"rank", "host", "cput", "mem", "vmem", "wall", "exit"}}
	ends := make([]string, len(r.Used.Ranks))
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
	for rank, u := range r.Used.Ranks {
		group, number := supervise.Split(firsts, rank)
		rows = append(rows, []string{supervise.Numbered(group, number), nodes[rank], seconds(u.CPU), peak(u, u.Mem), memory(u.VMem), seconds(u.Wall), cmp.Or(ends[rank], "-")})
	}
	return columns(rows)
}

// peak is the most memory in words. Of what was not sampled only the largest process is known.
func peak(u job.Used, largest int64) string {
	if u.Sampled || largest == 0 {
		return memory(max(u.Mem, largest))
	}
	return ">= " + memory(largest)
}

// memory is a size in words; of a process that was gone before one could look, it is not known.
func memory(bytes int64) string {
	if bytes == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// columns writes rows, whose cells others may have worded, under each other.
func columns(rows [][]string) string {
	for _, row := range rows {
		for i, cell := range row {
			row[i] = show.Word(cell)
		}
	}
	return text.Columns("  ", rows)
}

// application is what aprun tells at the end (aprun.md 6): the exit codes and signals that were not well, in the
// order in which they came, and what all ranks consumed. Times are summed up, memory is the largest rank's.
func application(id job.ID, r job.Result) string {
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
			add(&signals, job.Signal(e.Signal).Text())
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
