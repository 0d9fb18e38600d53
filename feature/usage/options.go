package usage

import (
	"remshell/cli/option"
	"remshell/cli/setup"
	"remshell/limits"
	"remshell/wire"
)

// Options are the options of the feature. Limits of a job are those of --limit, a class and the cluster file; the kernel
// enforces some of them, so the request has them.
type Options struct {
	Usage string `name:"--usage" after:"propagate" resume:"saved" takes:"attached" arg:"WHAT" implied:"hosts" words:"hosts,rank,lines,application" topic:"" help:"print resource usage per host at the end"`
}

const texts = `
--usage
  Wall time of the longest rank, CPU time of all ranks and their descendants, and the maximum of the memory
  (resident sets) of all processes of a host, or of the job. Memory is sampled
  every second, later every 5 s. With >= the job was too short for a sample, and the value is that of the largest
  process. For a job of several ranks, or inside a batch system, four more lines are printed:
  resources_used.cput, .mem, .vmem and .walltime. With =rank there is a line for each rank; =lines
  prints the four lines only.
`

// A Sampling asks the helpers for samples.
type Sampling struct {
	Report     string // the form of the report at the end (--usage); empty: none. Helpers do not get it
	Often      bool   // a sample every second, because there is a limit
	SmallRanks bool   // also the memory of ranks that wait4(2) does not know, because it is little
}

// Fields implements wire.Setting.
func (s *Sampling) Fields(c *wire.Codec) {
	c.Bool(&s.Often)
	c.Bool(&s.SmallRanks)
}

func init() {
	option.Register[Options](texts)
	setup.Register(func(r *setup.Run) error {
		r.OnLaunch(func() error {
			recorded := r.Line.Job.ReportFile != "" || r.Accounted
			if s := samplingFor(option.ValuesOf[Options](r.Line).Usage, recorded, r.Request.ResourceLimits); s != nil {
				r.Set(s)
			}
			return nil
		})
		return nil
	})
	wire.RegisterSetting[Sampling](4, &Sampling{}, &Sampling{Often: true, SmallRanks: true})
}

// samplingFor returns what is sampled of a job, for a form of report, for a record of the run, and to enforce limits. It is
// nil if nothing is: a plain job pays nothing (RM-51).
func samplingFor(report string, recorded bool, most limits.Map) *Sampling {
	measured, limited := report != "" || recorded, most.AnyMatching(limits.Resource.IsSampled)
	if !measured && !limited {
		return nil
	}
	return &Sampling{report, limited, measured}
}
