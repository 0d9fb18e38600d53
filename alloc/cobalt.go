package alloc

// Cobalt's lists are not read yet.
var cobalt = manager{
	name:   "cobalt",
	job:    []string{"COBALT_JOBID"},
	unread: []string{"COBALT_NODEFILE", "COBALT_PARTNAME"},
}
