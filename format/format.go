/*
Package format draws what people want to see of a job before it starts.

	nodes      --Topology--->  a picture of each kind of node       (DIAG-4)
	View       --Map-------->  ranks by node                        (DIAG-2)
	           --Ranks------>  a line for each rank, with its CPUs
	           --Hosts------>  hosts, slots, and where they were named
	           --DryRun----->  all of that, and why                 (DIAG-1)

Each picture is a function of values, and a text that ends with a newline. Equal
things are said once: hosts and numbers are folded. It does not decide anything, and
what programs read is made elsewhere (package state).
*/
package format

import (
	"fmt"
	"slices"
	"strings"

	"remshell/idset"
	"remshell/job"
	"remshell/text"
)

// A JobView is all there is to tell of a job that has not started.
type JobView struct {
	Request  job.Request
	Snapshot job.Snapshot
	Plan     job.Plan
	Err      error      // why there is no plan; nil: there is
	Warnings []job.Note // of the request and of the plan

	RouteOf   func(job.NodeDef) string // how a node is reached; nil: not told
	PMIOffers []string                 // by what the ranks of each section find us (PMIX-6)
	Environ   []string                 // the launcher's own environment; nil: variables are not told
}

// nodeOf is what was seen of a node of the plan; only its name is known of one that
// nobody looked at.
func (v JobView) nodeOf(n job.NodePlan) job.Node {
	if n.Node >= 0 && n.Node < len(v.Snapshot.Nodes) {
		return v.Snapshot.Nodes[n.Node]
	}
	return job.Node{NodeDef: job.NodeDef{Name: n.Name}}
}

// programName is the name of what an app starts, without its folder.
func (v JobView) programName(app int) string {
	if app >= len(v.Request.Apps) || len(v.Request.Apps[app].Argv) == 0 {
		return ""
	}
	path := v.Request.Apps[app].Argv[0]
	return path[strings.LastIndexByte(path, '/')+1:]
}

// A textTable is rows of cells, which are cleaned; text.Columns writes them.
type textTable struct {
	rows   [][]string
	indent string
}

func (t *textTable) addRow(cells ...string) {
	for i, cell := range cells {
		cells[i] = EscapeSentence(cell)
	}
	t.rows = append(t.rows, cells)
}

// dropEmptyColumns takes columns away in which no row but the first has a word.
func (t *textTable) dropEmptyColumns(names []string) {
	for _, name := range names {
		i := slices.Index(t.rows[0], name)
		if slices.ContainsFunc(t.rows[1:], func(row []string) bool { return row[i] != "" }) {
			continue
		}
		for k := range t.rows {
			t.rows[k] = slices.Delete(t.rows[k], i, i+1)
		}
	}
}

func (t *textTable) String() string { return text.Columns(t.indent, t.rows) }

// labelNumbers is a word and numbers, and nothing without numbers.
func labelNumbers(word string, numbers []int) string {
	if len(numbers) == 0 {
		return ""
	}
	if len(numbers) > 1 && word != "NUMA" {
		word += "s"
	}
	return word + " " + foldNumbers(numbers)
}

// foldNumbers folds ascending numbers: "0-3,8". Four or more at equal distances are
// "0-12 by 4".
func foldNumbers(numbers []int) string {
	if step := strideOf(numbers); step > 1 {
		return fmt.Sprintf("%d-%d by %d", numbers[0], numbers[len(numbers)-1], step)
	}
	return idset.Text(numbers)
}

// strideOf is the distance of neighbours if it is always the same; 0: it is not, or
// there are too few.
func strideOf(numbers []int) int {
	if len(numbers) < 4 {
		return 0
	}
	step := numbers[1] - numbers[0]
	for i := 2; i < len(numbers); i++ {
		if numbers[i]-numbers[i-1] != step {
			return 0
		}
	}
	return step
}

// sortedKnown is some numbers, ascending, each once; negative ones, unknown, are left out.
func sortedKnown(numbers []int) []int {
	known := slices.DeleteFunc(slices.Clone(numbers), func(n int) bool { return n < 0 })
	slices.Sort(known)
	return slices.Compact(known)
}
