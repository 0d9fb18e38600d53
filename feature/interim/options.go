package interim

import (
	"os"
	"time"

	"remshell/cli/option"
	"remshell/cli/record"
	"remshell/cli/setup"
	"remshell/job"
	"remshell/usererr"
	"remshell/wire"
)

// Options are the command-line options of this feature: --report-every.
type Options struct {
	ReportEvery option.Seconds `name:"--report-every" after:"report" resume:"allowed" needs:"report" arg:"TIME" topic:"" help:"also write the report every TIME while the job runs"`
}

const texts = `
--report-every
  Use this for jobs that may be killed together with mpiexec. mpiexec replaces the file of --report each
  time. While the job runs, the keys end, code and reason in it are null.
`

// Reports says how often the report is written while the job runs.
type Reports struct {
	Every  time.Duration
	File   string
	Record func(job.Result) record.Run // returns the record of the result so far
}

// Fields implements wire.Setting. It sends nothing, because helpers take no part in the report.
func (*Reports) Fields(*wire.Codec) {}

func init() {
	option.Register[Options](texts)
	setup.Register(func(r *setup.Run) error {
		if every := option.ValuesOf[Options](r.Line).ReportEvery.Duration(); every > 0 {
			r.ReplaceReport = true
			r.OnLaunch(func() error { return begin(r, every) })
		}
		return nil
	})
	wire.RegisterSetting[Reports](30, new(Reports))
}

// begin makes mpiexec write the report at the given interval while the job runs. It returns an error if the
// file cannot be replaced.
func begin(r *setup.Run, interval time.Duration) error {
	name := r.Line.Job.ReportFile
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return &usererr.Error{Text: "--report-every: " + name + " is not a regular file", Remedy: "mpiexec replaces the file with each report; give a regular file, or leave out --report-every"}
	}
	r.Set(&Reports{interval, name, r.Record})
	return nil
}
