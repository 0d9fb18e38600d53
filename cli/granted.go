package cli

import (
	"cmp"
	"fmt"

	"remshell/hostlist"
)

// granted lists the hosts that a batch system gave us (-rmk), in its order. Its own words
// are read, never its programs run.
func (sc scene) granted(line Line, named []hostlist.Entry) ([]hostlist.Entry, error) {
	system := line.Job.RMK
	if system == "none" || system == "user" {
		return named, nil
	}
	if len(named) > 0 {
		return nil, &UsageError{fmt.Sprintf("-rmk %s contradicts -host and -hostfile", system), "keep one"}
	}
	variable := map[string]string{"slurm": "SLURM_JOB_NODELIST", "pbs": "PBS_NODEFILE", "sge": "PE_HOSTFILE", "lsf": "LSB_MCPU_HOSTS"}[system]
	value, _ := lookup(sc.environ, variable)
	if old, _ := lookup(sc.environ, "SLURM_NODELIST"); system == "slurm" {
		value = cmp.Or(value, old)
	}
	if value == "" {
		return nil, &UsageError{fmt.Sprintf("-rmk %s: %s is not set", system, variable), "run inside an allocation, or name hosts with -host"}
	}
	var entries []hostlist.Entry
	var err error
	switch system {
	case "slurm":
		entries, err = sc.slurm(variable, value)
	case "lsf":
		entries, err = hostlist.Pairs(variable, value)
	default:
		if entries, err = hostlist.ReadFile(value, sc.open); err != nil {
			err = fmt.Errorf("%s: %w", variable, err)
		}
	}
	if err != nil {
		return nil, err
	}
	return hostlist.Join(entries)
}

// slurm gives each node its tasks, if Slurm says how many.
func (sc scene) slurm(variable, nodes string) ([]hostlist.Entry, error) {
	entries, err := hostlist.Parse(variable, nodes)
	counts, there := lookup(sc.environ, "SLURM_TASKS_PER_NODE")
	if err != nil || !there {
		return entries, err
	}
	tasks, err := hostlist.TaskCounts(counts)
	if err == nil && len(tasks) != len(entries) {
		err = fmt.Errorf("it counts %d nodes, and %s names %d", len(tasks), variable, len(entries))
	}
	if err != nil {
		return nil, &UsageError{fmt.Sprintf("SLURM_TASKS_PER_NODE: %v", err), ""}
	}
	for i := range entries {
		entries[i].Slots = tasks[i]
	}
	return entries, nil
}
