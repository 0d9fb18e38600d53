package alloc

import "remshell/hostlist"

// LSF has names and slots in turn: "a 4 b 4".
var lsf = manager{
	name:   "lsf",
	job:    []string{"LSB_JOBID"},
	list:   []string{"LSB_MCPU_HOSTS"},
	unread: []string{"LSB_AFFINITY_HOSTFILE", "LSB_DJOB_HOSTFILE", "LSB_HOSTS"},
	read: func(_ World, variable, text string) ([]hostlist.Entry, error) {
		return hostlist.Pairs(variable, text)
	},
}
