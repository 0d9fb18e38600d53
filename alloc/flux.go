package alloc

// Flux tells of its hosts by a socket, which is not asked yet.
var flux = manager{
	name:   "flux",
	job:    []string{"FLUX_JOB_ID", "FLUX_ENCLOSING_ID"},
	with:   []string{"FLUX_JOB_ID", "FLUX_URI"},
	unread: []string{"FLUX_URI"},
}
