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
	From    option.HostNames `name:"--from" after:"migrate" needs:"migrate" env:"-" arg:"HOSTS" topic:"" help:"for --migrate: hosts that the job leaves for good"`
	To      option.HostNames `name:"--to" after:"from" needs:"migrate" env:"-" arg:"HOSTS" topic:"" help:"for --migrate: hosts that the job may move to"`
}

const texts = `
--migrate
  mpiexec --migrate JOB [--from HOSTS] [--to HOSTS] [HOSTS]: the job gets a request for a checkpoint, is ended, and starts again on other hosts of
  those that it was started with, without a pause. The job needs --restart, whose count does not change, and --ckpt-signal or --ckpt-cmd.
  Without --from and --to it moves to where it would start now. The new hosts are planned and claimed before anything is ended. If that fails,
  nothing happens: the command prints the reason and exits with 125. Allowed for the same users as --end; JOB as with --status.

--from
  The job does not return to these hosts, even at a later restart.

--to
  Only these are candidates, each of which must be among the hosts that the job was started with.
`

func init() {
	option.Register[Options](texts)
	setup.RegisterJobRequest("migrate", setup.JobRequest{Verb: job.VerbMigrate, Args: moveArgs,
		Needs: "start the job with --restart N, and with --ckpt-signal SIG or --ckpt-cmd CMD"})
}

// moveArgs returns the arguments of the request for a move.
func moveArgs(line option.Line) ([]string, error) {
	o := option.ValuesOf[Options](line)
	args, err := restart.Move{From: o.From, To: o.To}.Args()
	if err != nil {
		err = &usererr.Error{Text: err.Error(), Remedy: "give fewer hosts, or move the job in two steps"}
	}
	return args, err
}
