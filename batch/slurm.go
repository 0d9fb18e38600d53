package batch

import (
	"fmt"
	"slices"
	"strconv"

	"remshell/fault"
)

// Slurm folds the names of its nodes, and counts their tasks and CPUs beside them
// (rm-integration.md 2.2).
var slurm = manager{
	name:  "slurm",
	needs: "SLURM_JOB_ID",
	inside: func(w World) bool {
		return w.set("SLURM_JOB_ID") || w.set("SLURM_JOBID") || w.set("SLURM_HET_SIZE")
	},
	job:    slurmNumber,
	copies: slurmCopies,
	read:   slurmRead,
}

func slurmNumber(w World) string {
	_, id := w.first("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_HET_JOB_ID")
	return id
}

// lastStep is the number of the first of Slurm's own steps: that of the batch script and the like.
const lastStep = 4294967280

// inStep reports whether we were started by srun (RM-11).
func inStep(w World) bool {
	id, ok := number(w.value("SLURM_STEP_ID"))
	return ok && id < lastStep
}

// terminal reports whether srun --pty has started us: of its tasks this one alone has input (RM-12).
func terminal(w World) bool {
	return w.set("SLURM_PTY_PORT") && w.value("SLURM_PROCID") == "0" && inStep(w)
}

// slurmCopies is how many tasks srun has started. A rank of ours is none: it does not have
// SLURM_PROCID.
func slurmCopies(w World) (times, by string) {
	n := w.count("SLURM_STEP_NUM_TASKS")
	if _, task := w.Env("SLURM_PROCID"); !task || n < 2 || w.set("SLURM_PTY_PORT") {
		return "", ""
	}
	return fmt.Sprintf("%d times", n), fmt.Sprintf("srun -n %d", n)
}

// slurmRead reads a step, the groups of a heterogeneous job, or a job.
func slurmRead(w World, wish Wish) (Allocation, error) {
	_, size := w.first("SLURM_HET_SIZE", "SLURM_PACK_SIZE")
	groups, _ := number(size)
	whole := wish.Job || terminal(w)
	var a Allocation
	var err error
	switch {
	case inStep(w) && !whole && wish.Groups == nil:
		a, err = slurmStep(w)
	case groups > 1:
		a, err = slurmGroups(w, wish.Groups, groups)
	case wish.Groups != nil:
		return a, &fault.Error{Text: fmt.Sprintf("--het-group: slurm job %s has no groups", slurmNumber(w)), Remedy: "leave it out"}
	default:
		a, err = slurmJob(w, inStep(w))
	}
	a.End = w.end("SLURM_JOB_END_TIME")
	if err == nil {
		w.slurmGPUs(&a)
	}
	return a, err
}

// slurmGPUs is what Slurm tells of GPUs: those of the node on which it has started us, by the numbers of their
// driver, in one variable for a step and another for the script of a job. Of other nodes it tells nothing.
// What is no such list withholds nothing.
func (w World) slurmGPUs(a *Allocation) {
	variable := "SLURM_JOB_GPUS"
	if a.Step != "" {
		variable = "SLURM_STEP_GPUS"
	}
	here := slices.IndexFunc(a.Hosts, func(h Host) bool { return key(h.Name) == key(w.value("SLURMD_NODENAME")) })
	if !w.set("SLURMD_NODENAME") && len(a.Hosts) == 1 {
		here = 0
	}
	switch list := w.value(variable); {
	case list == "" || here < 0:
	case !numbered(list):
		a.Warnings = append(a.Warnings, fmt.Sprintf("warning: %s is %s, which is no list of GPUs; it is left aside", variable, quoted(list)))
	default:
		a.Hosts[here].GPUs = list
	}
}

// A slurmNames says which variables tell of hosts. Tasks or cpus may be empty; group is what those that tell of memory end in.
type slurmNames struct{ hosts, tasks, cpus, width, group string }

// slurmStep is what srun has given to one step.
func slurmStep(w World) (Allocation, error) {
	a, err := w.slurm(slurmNames{hosts: "SLURM_STEP_NODELIST", tasks: "SLURM_STEP_TASKS_PER_NODE", width: "SLURM_CPUS_PER_TASK"})
	a.Step = w.value("SLURM_STEP_ID")
	if err == nil && len(a.Hosts) == 1 {
		a.Hosts[0].CPUs = max(a.Hosts[0].CPUs, w.count("SLURM_CPUS_ON_NODE"))
		a.Hosts[0].Bytes = w.slurmBytes(a.Hosts[0].CPUs, "")
	}
	return a, err
}

// slurmJob is what salloc or sbatch has given. Inside of a step only some of its variables are
// still the job's.
func slurmJob(w World, step bool) (Allocation, error) {
	hosts, _ := w.first("SLURM_JOB_NODELIST", "SLURM_NODELIST")
	names := slurmNames{hosts: hosts, cpus: "SLURM_JOB_CPUS_PER_NODE"}
	if !step {
		names.width = "SLURM_CPUS_PER_TASK"
		asked, _ := w.first("SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_NTASKS_PER_SOCKET", "SLURM_NTASKS_PER_CORE", "SLURM_NTASKS_PER_GPU")
		if w.set(asked) || !w.set(names.cpus) {
			names.tasks = "SLURM_TASKS_PER_NODE"
		}
	}
	return w.slurm(names)
}

// slurmGroups are some groups of a heterogeneous job, one after the other; nil: all.
func slurmGroups(w World, which []int, groups int) (all Allocation, err error) {
	if groups > maxHosts {
		return all, &fault.Error{Text: fmt.Sprintf("SLURM_HET_SIZE: %d groups are too many", groups)}
	}
	var hosts list
	all.Source = groupNames(w, 0).hosts
	for group := range groups {
		if which != nil && !slices.Contains(which, group) {
			continue
		}
		a, err := w.slurm(groupNames(w, group))
		if err != nil {
			return all, err
		}
		if all.Width == 0 || a.Width < all.Width { // the width of a task that fits everywhere
			all.Width, all.WidthFrom = a.Width, a.WidthFrom
		}
		for _, h := range a.Hosts {
			h.Group = group
			if err := hosts.add(h); err != nil {
				return all, wrong(a.Source, err)
			}
		}
	}
	for _, group := range which {
		if group >= groups {
			return all, &fault.Error{Text: fmt.Sprintf("--het-group %d: slurm job %s has %d groups, which count from 0", group, slurmNumber(w), groups), Remedy: "leave it out for all of them"}
		}
	}
	all.Hosts = hosts.hosts
	return all, nil
}

// groupNames are the variables of one group, by their names of today or by those before 2020.
func groupNames(w World, group int) slurmNames {
	end := "_HET_GROUP_" + strconv.Itoa(group)
	if old := "_PACK_GROUP_" + strconv.Itoa(group); !w.set("SLURM_JOB_NODELIST"+end) && w.set("SLURM_JOB_NODELIST"+old) {
		end = old
	}
	return slurmNames{"SLURM_JOB_NODELIST" + end, "SLURM_TASKS_PER_NODE" + end, "SLURM_JOB_CPUS_PER_NODE" + end, "SLURM_CPUS_PER_TASK" + end, end}
}

// slurm reads hosts, with their tasks and CPUs. What has no tasks has as many as CPUs for them.
func (w World) slurm(names slurmNames) (a Allocation, err error) {
	a.Source, a.Width = names.hosts, 1
	if n := w.count(names.width); n > 0 && n <= maxCount {
		a.Width, a.WidthFrom = n, names.width
	}
	if !w.set(names.hosts) {
		return a, unread(names.hosts + " is not set")
	}
	hosts, err := hostlist(w.value(names.hosts))
	if err == nil && len(hosts) == 0 {
		return a, unread(names.hosts + " names no host")
	}
	if err != nil {
		return a, wrong(names.hosts, err)
	}
	tasks, err := w.counts(names.tasks, len(hosts))
	if err != nil {
		return a, err
	}
	cpus, err := w.counts(names.cpus, len(hosts))
	if err != nil {
		return a, err
	}
	var l list
	for i, name := range hosts {
		h := Host{Name: name, Tasks: 1}
		if cpus != nil {
			h.CPUs, h.Tasks = cpus[i], cpus[i]/a.Width
		}
		if tasks != nil {
			h.Tasks = tasks[i]
		}
		if err := l.add(h); err != nil {
			return a, wrong(names.hosts, err)
		}
	}
	for i := range l.hosts {
		h := &l.hosts[i]
		h.Bytes = w.slurmBytes(max(h.CPUs, h.Tasks*a.Width), names.group)
	}
	a.Hosts = l.all()
	return a, nil
}

// slurmBytes is the memory of a host with so many CPUs, which Slurm tells in MB; 0, as Slurm says itself: all there is.
func (w World) slurmBytes(cpus int, group string) int64 {
	mb, times := w.count("SLURM_MEM_PER_NODE"+group), 1
	if mb <= 0 {
		mb, times = w.count("SLURM_MEM_PER_CPU"+group), cpus
	}
	if mb <= 0 || times < 1 || mb > most>>20/times {
		return 0
	}
	return int64(mb*times) << 20
}

// most is more bytes than any host has.
const most = 1 << 60

// counts reads a variable with a number for each host; nil: it is not set.
func (w World) counts(variable string, hosts int) ([]int, error) {
	if variable == "" || !w.set(variable) {
		return nil, nil
	}
	all, err := counts(variable, w.value(variable), hosts)
	if err != nil {
		return nil, &fault.Error{Text: err.Error()}
	}
	return all, nil
}

// wrong is M3 for a list that is no file, and M20.
func wrong(variable string, err error) error {
	return &fault.Error{Text: fmt.Sprintf("%s: %v", variable, err)}
}
