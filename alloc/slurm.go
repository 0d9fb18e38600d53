package alloc

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"remshell/fault"
	"remshell/hostlist"
)

// Slurm folds the names of its nodes, and counts their tasks and CPUs beside them.
var slurm = manager{
	name:    "slurm",
	job:     []string{"SLURM_JOB_ID", "SLURM_JOBID", "SLURM_HET_JOB_ID"},
	list:    []string{"SLURM_JOB_NODELIST", "SLURM_NODELIST"},
	unread:  slurmGroups,
	read:    slurmHosts,
	strange: slurmStrange,
	width:   slurmWidth,
	copies:  slurmCopies,
}

// slurmGroups count the groups of a heterogeneous job. What its other variables say is then
// one group's.
var slurmGroups = []string{"SLURM_HET_SIZE", "SLURM_PACK_SIZE"}

func slurmStrange(w World) string {
	if groups, _ := strconv.Atoi(w.value(slurmGroups)); groups > 1 {
		return "the groups of a heterogeneous job are not read yet"
	}
	return ""
}

// slurmCopies is how many tasks srun has started. A rank of ours is none: it does not have
// SLURM_PROCID.
func slurmCopies(w World) (tasks string, several bool) {
	tasks = w.value([]string{"SLURM_STEP_NUM_TASKS"})
	_, task := w.Env("SLURM_PROCID")
	n, err := strconv.Atoi(tasks)
	return tasks, task && err == nil && n > 1
}

func slurmWidth(w World) (cpus int, variable string) {
	variable = "SLURM_CPUS_PER_TASK"
	value, _ := w.Env(variable)
	cpus, _ = strconv.Atoi(value)
	return max(1, cpus), variable
}

// slurmHosts gives each node its CPUs: as many as its tasks have, if the user has asked for
// tasks, else all that Slurm gave (rm-integration.md 2.2).
func slurmHosts(w World, variable, nodes string) ([]hostlist.Entry, error) {
	entries, err := hostlist.Parse(variable, nodes)
	if err != nil {
		return nil, err
	}
	width, _ := slurmWidth(w)
	counted, counts := w.said([]string{"SLURM_TASKS_PER_NODE"})
	asked := []string{"SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_NTASKS_PER_SOCKET", "SLURM_NTASKS_PER_CORE", "SLURM_NTASKS_PER_GPU"}
	if w.value(asked) == "" {
		if name, cpus := w.said([]string{"SLURM_JOB_CPUS_PER_NODE"}); cpus != "" {
			counted, counts, width = name, cpus, 1
		}
	}
	slots, err := taskCounts(cmp.Or(counts, "1"))
	if err == nil && len(slots) == 1 {
		slots = slices.Repeat(slots, len(entries))
	}
	if err == nil && len(slots) != len(entries) {
		err = fmt.Errorf("it counts %d nodes, and %s names %d", len(slots), variable, len(entries))
	}
	if err != nil {
		return nil, &fault.Error{Text: fmt.Sprintf("%s: %v", counted, err)}
	}
	for i := range entries {
		entries[i].Slots = slots[i] * width
	}
	return entries, nil
}

// maxNodes is how many nodes are counted.
const maxNodes = 1 << 20

// taskCounts reads Slurm's short form of counts for each node, as in
// SLURM_TASKS_PER_NODE and SLURM_JOB_CPUS_PER_NODE: "2(x3),1" is 2, 2, 2, 1.
func taskCounts(text string) ([]int, error) {
	var all []int
	for item := range strings.SplitSeq(text, ",") {
		count, repeat, repeated := strings.Cut(strings.TrimSpace(item), "(x")
		times := 1
		if repeated {
			number, closed := strings.CutSuffix(repeat, ")")
			n, err := strconv.Atoi(number)
			if !closed || !digits(number) || err != nil || n < 1 {
				return nil, fmt.Errorf("%q is not a count of tasks such as 2 or 2(x3)", item)
			}
			times = n
		}
		n, err := strconv.Atoi(count)
		if !digits(count) || err != nil {
			return nil, fmt.Errorf("%q is not a count of tasks such as 2 or 2(x3)", item)
		}
		if times > maxNodes-len(all) {
			return nil, fmt.Errorf("%q counts more than %d nodes", text, maxNodes)
		}
		for range times {
			all = append(all, n)
		}
	}
	return all, nil
}

// digits reports whether a text is a number without a sign.
func digits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }
