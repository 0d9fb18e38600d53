/*
Package bindings is the feature of mpiexec that reports to which CPUs the kernel has bound each rank (--report-bindings,
rule DIAG-3). The helpers read the bindings and send them in the Started message.

	--report-bindings: Request --Prepare--> helper
	Started, with CPUs --> report: prints a line for each rank of a group, in the order of ranks and before their
	            output, when all lines are known
*/
package bindings

import (
	"strings"

	"remshell/launch"
	"remshell/launch/supervise"
	"remshell/wire"
)

func init() { launch.Register(launch.Feature{Name: "bindings", Attach: attach}) }

func attach(j *launch.Job) {
	if _, wanted := launch.SettingOf[*Request](j); !wanted {
		return
	}
	reports := make(map[*launch.Group]*report)
	j.Hooks.GroupStarts.Add(func(g *launch.Group) {
		j.Streams.HoldOutput() // the bindings are printed before the output of ranks
		number, _ := supervise.GroupOf(j.GroupFirsts, g.First)
		reports[g] = newReport(j.Streams.ReleaseOutput, number, g.Plan.Size)
	})
	j.Hooks.RankStarted.Add(func(n *launch.Node, g *launch.Group, m *wire.Started) { reports[g].addRank(n, m.Rank-g.First, m) })
	finish := func(g *launch.Group) {
		reports[g].printNow()
		delete(reports, g)
	}
	j.Hooks.GroupForgotten.Add(finish)
	j.Hooks.Ended.Add(func() {
		for _, g := range j.Groups {
			finish(g)
		}
	})
}

// A report collects the bindings of a group's ranks.
type report struct {
	print   func(text string) // receives all lines, once; nil afterwards
	group   int
	lines   []string // by rank; empty: unknown
	missing int      // ranks that have not reported yet
}

func newReport(print func(text string), group, ranks int) *report {
	return &report{print, group, make([]string, ranks), ranks}
}

// addRank adds the line of a rank that is running. For a rank that could not be started, it adds no line. After the
// last rank of the group, it prints all lines.
func (b *report) addRank(n *launch.Node, rank int, m *wire.Started) {
	if b == nil || rank >= len(b.lines) {
		return
	}
	if m.Err == "" {
		b.lines[rank] = formatBinding(supervise.FormatRank(b.group, rank), n.Name(), n.Probe.Topology, m.CPUs, m.Mems)
	}
	if b.missing--; b.missing == 0 {
		b.printNow()
	}
}

// printNow prints the lines that addRank has added so far. Only the first call prints.
func (b *report) printNow() {
	if b == nil || b.print == nil {
		return
	}
	b.print(strings.Join(b.lines, ""))
	b.print, b.lines = nil, nil
}
