package alloc

// Grid Engine writes a file. A JOB_ID need not be its own, and where it gives no PE_HOSTFILE,
// this machine is all that the job has.
var sge = manager{
	name: "sge",
	job:  []string{"JOB_ID"},
	with: []string{"PE_HOSTFILE"},
	list: []string{"PE_HOSTFILE"},
}
