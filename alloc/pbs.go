package alloc

// PBS writes a file with a line for each slot.
var pbs = manager{
	name: "pbs",
	job:  []string{"PBS_JOBID"},
	list: []string{"PBS_NODEFILE"},
}
