package status

import "remshell/cli/option"

// Options are the command-line options of this feature. The job that --status names is in
// option.Line.Query.
type Options struct {
	Status string `name:"--status" after:"queue" asks:"hosts" excludes:"asks wait" env:"-" arg:"JOB" topic:"" help:"print the state of a job that runs or waits" command:"status" commandhelp:"print the state of a job, and what its ranks do" commandtakes:"json stacks" likecommands:"info show stat stats stacks"`
}

const texts = `
--status
  mpiexec --status JOB [HOSTS]: prints the state of JOB. For your own jobs it also prints what each rank is
  doing, in the same form as -timeout. Root and administrators of the node get this for all jobs. HOSTS must
  include at least one node of the job. JOB is the ID of a job, an unambiguous beginning of an ID, ID@USER, or last, which is
  your newest job. If several users have jobs with the same ID, JOB must be ID@USER, unless one of the jobs
  is yours. If the job has just begun or does not reply, the command prints only what the kernel knows about
  the processes of the job.
`

func init() {
	option.Register[Options](texts)
	option.RegisterRemoved("status-signal", "use mpiexec --status JOB")
}
