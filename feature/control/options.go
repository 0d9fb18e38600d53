package control

import (
	"remshell/cli/option"
	"remshell/cli/setup"
	"remshell/job"
)

// Options are the command-line options of this feature. The job that --end, --suspend or --resume-job names
// is in option.Line.Query.
type Options struct {
	End     string `name:"--end" after:"status queue" asks:"hosts" excludes:"asks wait" env:"-" arg:"JOB" topic:"" help:"end a job, from any host" command:"end" commandhelp:"end a job, or take a request out of the queue" likecommands:"kill cancel terminate abort stop delete del rm"`
	Suspend string `name:"--suspend" after:"end" asks:"hosts" excludes:"asks wait" env:"-" arg:"JOB" topic:"" help:"stop all ranks of a job" command:"suspend" likecommands:"hold pause freeze"`
	Resume  string `name:"--resume-job" after:"suspend" asks:"hosts" excludes:"asks wait" env:"-" arg:"JOB" topic:"" help:"continue a suspended job" command:"resume" likecommands:"release cont continue unsuspend resume-job"`
}

const texts = `
--end
  mpiexec --end JOB [HOSTS]: its ranks get SIGTERM, and after its --kill-grace SIGKILL. Its mpiexec reports
  the user who ended it, and exits with 143. One node of the job is enough as HOSTS; JOB as with
  --status. The command waits until the job has no CPUs any more. Allowed for your own jobs, for root, and for administrators in the node's /etc/remshell/cluster.toml. A job
  that has just begun may take a second to answer. A waiting request is removed from the queue, by its user or root; its mpiexec reports the user, and exits with 125.

--suspend
  mpiexec --suspend JOB [HOSTS]: its ranks and their children stop, also ranks that start meanwhile. -timeout and
  the other times of the job do not run; it keeps its CPUs, memory and GPUs. --checkpoint and --migrate are
  refused meanwhile. A suspended job can be ended, and ends if its mpiexec dies. Allowed for the same users as --end; JOB as with --status.

--resume-job
  mpiexec --resume-job JOB [HOSTS]: after --suspend. To continue a saved job: mpiexec --resume FILE.
`

func init() {
	option.Register[Options](texts)
	option.RegisterRemoved("suspend=free", "use --suspend, which keeps the CPUs, or --migrate, which frees hosts")
	setup.RegisterJobRequest("end", setup.JobRequest{Verb: job.VerbEnd})
	setup.RegisterJobRequest("suspend", setup.JobRequest{Verb: job.VerbSuspend})
	setup.RegisterJobRequest("resume", setup.JobRequest{Verb: job.VerbResume})
}
