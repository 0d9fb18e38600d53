/*
Package format formats nodes, plans, jobs and queues for the user, and escapes text from other hosts.

	nodes      --Topology--->  a picture of each kind of node       (DIAG-4)
	JobView    --Map-------->  ranks by node                        (DIAG-2)
	           --Ranks------>  a line for each rank, with its CPUs
	           --Hosts------>  hosts, slots, and where they were named
	           --DryRun----->  all of the above, with the reasons   (DIAG-1)

	ledgers    --Ledger----->  jobs, queue, one job

Each function converts values to a text that ends with a newline. Equal hosts are listed once: host names and
numbers are folded, as in n[1-3]. The package makes no decisions. Package simulate makes the JSON form of a plan.
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

// A JobView contains everything that mpiexec can print about a job before it starts.
type JobView struct {
	Request  job.Request
	Snapshot job.Snapshot
	Plan     job.Plan
	Err      error      // why there is no plan; nil: there is one
	Warnings []job.Note // about the request and the plan

	RouteOf   func(job.NodeDef) string // describes how a node is reached; nil: not shown
	PMIOffers []string                 // which PMI each app context is offered (PMIX-6)
	Environ   []string                 // the launcher's environment; nil: variables are not shown
}

// nodeOf returns the probed node of a node plan. If the node was not probed, only the name of the returned node is set.
func (v JobView) nodeOf(n job.NodePlan) job.Node {
	if n.Node >= 0 && n.Node < len(v.Snapshot.Nodes) {
		return v.Snapshot.Nodes[n.Node]
	}
	return job.Node{NodeDef: job.NodeDef{Name: n.Name}}
}

// programName returns the name of an app context's program without its directory.
func (v JobView) programName(app int) string {
	if app >= len(v.Request.Apps) || len(v.Request.Apps[app].Argv) == 0 {
		return ""
	}
	path := v.Request.Apps[app].Argv[0]
	return path[strings.LastIndexByte(path, '/')+1:]
}

// A textTable collects rows of cells and escapes the cells. text.Columns formats the table.
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

// dropEmptyColumns removes those columns in names whose cells are all empty. The first row contains the column names
// and is ignored.
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

// labelNumbers returns word followed by the folded numbers, such as "ranks 0-3". It returns "" if there are no
// numbers.
func labelNumbers(word string, numbers []int) string {
	if len(numbers) == 0 {
		return ""
	}
	if len(numbers) > 1 && word != "NUMA" {
		word += "s"
	}
	return word + " " + foldNumbers(numbers)
}

// foldNumbers formats ascending numbers as ranges, such as "0-3,8". It formats four or more numbers at equal
// distances as "0-12 by 4".
func foldNumbers(numbers []int) string {
	if step := strideOf(numbers); step > 1 {
		return fmt.Sprintf("%d-%d by %d", numbers[0], numbers[len(numbers)-1], step)
	}
	return idset.Text(numbers)
}

// strideOf returns the distance between neighboring numbers if all distances are equal, and 0 otherwise. It returns
// 0 for fewer than four numbers.
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

// sortedKnown returns numbers sorted and without duplicates. It leaves out negative numbers, which stand for unknown
// values.
func sortedKnown(numbers []int) []int {
	known := slices.DeleteFunc(slices.Clone(numbers), func(n int) bool { return n < 0 })
	slices.Sort(known)
	return slices.Compact(known)
}
