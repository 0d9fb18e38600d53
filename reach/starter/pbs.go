package starter

// PBS gives no program of its job an input (pbsdsh, pbs_tmrsh), so hosts are reached by ssh, and the shell there
// asks for its session to be one of the job's (from OpenPBS's manuals; never tried live):
//
//	mpiexec --- sshd --- /bin/sh - pbs_attach -j JOB -p PID    exec: keeper --- helper --- ranks, all of that session
//
// PBS counts and ends processes by their session; so PBS_JOBID is set for the helper, whose ranks then stay in it.
// It is no row of the table, since it starts nothing: package reach has the shell do it (Self.Joining).
const (
	PBS       = "pbs"        // word of -launcher, and what package batch calls the system
	Attach    = "pbs_attach" // on the hosts
	PBSName   = "PBS"
	PBSWithin = "call mpiexec in a script of qsub"
)
