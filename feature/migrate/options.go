package migrate

import (
	"remshell/cli/option"
	"remshell/cli/setup"
	"remshell/job"
	"remshell/launch/restart"
	"remshell/usererr"
)

// Options are the command-line options of this feature. The job that --migrate names is in
// option.Line.Query.
type Options struct {
	Migrate string           `name:"--migrate" after:"checkpoint resume-job queue" asks:"hosts" excludes:"asks wait" env:"-" arg:"JOB" topic:"" help:"move a job to other hosts, after a checkpoint" command:"migrate" commandtakes:"from to" likecommands:"move"`
	From    option.HostNames `name:"--from" after:"migrate" needs:"migrate" env:"-" arg:"HOSTS" topic:"" help:"hosts that the job must leave for good (--migrate)"`
	To      option.HostNames `name:"--to" after:"from" needs:"migrate" env:"-" arg:"HOSTS" topic:"" help:"hosts to which --migrate may move the job"`
}

const texts = `
--migrate
  mpiexec --migrate JOB [--from HOSTS] [--to HOSTS] [HOSTS]: moves JOB to other hosts. The new hosts come
  from the list of hosts with which JOB was started. mpiexec requests a checkpoint, ends the ranks and
  starts the job again without a pause. JOB needs --restart, and --ckpt-signal or --ckpt-cmd. A move does
  not count as a restart. Without --from and --to, the job moves to the hosts on which it would start now.
  mpiexec plans and claims the new hosts before it ends any rank. If that fails, the job continues on its
  hosts, and the command prints the reason and exits with 125. Users who may end the job may also move it.
  For the form of JOB, see --status.

--from
  The job does not return to these hosts, even at a later restart.

--to
  The job may move only to these hosts. Each must be among the hosts with which the job was started.
`

func init() {
	option.Register[Options](texts)
	setup.RegisterJobRequest("migrate", setup.JobRequest{Verb: job.VerbMigrate, Args: moveArgs,
		Needs: "start the job with --restart N, and with --ckpt-signal SIG or --ckpt-cmd CMD"})
}

// moveArgs returns the arguments of the request to move a job.
func moveArgs(line option.Line) ([]string, error) {
	o := option.ValuesOf[Options](line)
	args, err := restart.Move{From: o.From, To: o.To}.Args()
	if err != nil {
		err = &usererr.Error{Text: err.Error(), Remedy: "give fewer hosts, and run the command again for the others"}
	}
	return args, err
}
