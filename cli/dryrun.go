package cli

import (
	"errors"
	"fmt"
	"strings"

	"remshell/hostlist"
	"remshell/job"
	"remshell/plan"
	"remshell/state"
)

// planText explains a plan to people: what was dropped and why, the order and its key,
// and which rank gets which CPUs of which node.
func planText(o state.Outcome) string {
	var b strings.Builder
	for _, w := range o.Warnings {
		fmt.Fprintf(&b, "warning   %s\n", w.Text)
	}
	for _, line := range plan.Folded(o.Plan.Rejected) {
		fmt.Fprintf(&b, "not used  %s\n", line)
	}
	if !o.Placed() {
		fmt.Fprintf(&b, "%s\n", verdictText(o.Err))
		return b.String()
	}
	fmt.Fprintf(&b, "order     %s, by %s\n", hostlist.FoldList(o.Plan.Order), strings.ToLower(o.Plan.Sort))
	fmt.Fprintf(&b, "ranks     %d on %s, %s each%s\n", o.Plan.Size, counted(len(o.Plan.Nodes), "node"), counted(o.Threads, "CPU"), traits(o.Plan))
	for _, n := range o.Plan.Nodes {
		fmt.Fprintf(&b, "  %s\n", n.Name)
		for _, r := range n.Ranks {
			fmt.Fprintf(&b, "    rank %-6d CPUs %-12s memory %s\n", r.Rank, spans(r.CPUs), spans(r.Mems))
		}
	}
	return b.String()
}

// verdictText says why there is no plan, and whether it would wait.
func verdictText(err error) string {
	var failed *plan.Error
	switch {
	case errors.As(err, &failed) && failed.Position > 0:
		return fmt.Sprintf("waits     at position %d: %s", failed.Position, failed.Text)
	case errors.As(err, &failed) && failed.Way != "":
		return "no plan   " + failed.Text + "; " + failed.Way
	}
	return "no plan   " + err.Error()
}

func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprint(n, " ", noun)
}

func traits(p job.Plan) string {
	text := ""
	if p.Overbooked {
		text += ", sharing CPUs"
	}
	if p.Exclusive {
		text += ", nobody else on the nodes"
	}
	return text
}

// spans folds ascending numbers: "0-3,8"; none is "any".
func spans(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		end := i
		for end+1 < len(numbers) && numbers[end+1] == numbers[end]+1 {
			end++
		}
		part := fmt.Sprint(numbers[i])
		if end > i {
			part += fmt.Sprintf("-%d", numbers[end])
		}
		parts = append(parts, part)
		i = end + 1
	}
	if parts == nil {
		return "any"
	}
	return strings.Join(parts, ",")
}
