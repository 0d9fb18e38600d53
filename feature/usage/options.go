package usage

import (
	"remshell/cli/option"
	"remshell/cli/setup"
	"remshell/limits"
	"remshell/wire"
)

// Options are the command-line options of this feature: --usage and --limit. A job's limits come from
// --limit, a class and the cluster file. The request contains all limits, because the kernel enforces some of
// them, and package supervise enforces the wall time.
type Options struct {
	Limit []LimitList `name:"--limit" after:"timeout" repeat:"sum" arg:"NAME=VALUE" topic:"" under:"Life cycle" help:"limit the resources of a job: mem=2gb,walltime=1h"`
	Usage string      `name:"--usage" after:"propagate" resume:"saved" takes:"attached" arg:"WHAT" implied:"hosts" words:"hosts,rank,lines,application" topic:"" help:"print CPU time and memory at the end: hosts, rank, lines"`
}

// A LimitList is the value of one --limit option.
type LimitList struct {
	Text   string // as given
	Bounds limits.Map
}

// UnmarshalText implements encoding.TextUnmarshaler. It accepts NAME=VALUE, or several of these separated by commas.
func (l *LimitList) UnmarshalText(text []byte) (err error) {
	l.Text = string(text)
	l.Bounds, err = limits.Parse(l.Text)
	return err
}

func (l LimitList) String() string { return l.Text }

const texts = `
--limit
  Pairs NAME=VALUE are separated by commas. The option may be repeated. MPIEXEC_LIMIT, [limits] of the
  cluster file and [class.NAME.limits] of the class of the job also set limits; the smallest value applies.
  Limits of the job: walltime (the same as -timeout), cput, mem, vmem. Limits of each host: hmem, hvmem.
  Limit of each rank: pmem. mpiexec checks these limits every second, for the ranks and all their
  descendants. If a limit is exceeded, mpiexec reports the limit, ends all ranks, and exits with 124. Limits
  of each process, which the kernel enforces: pvmem, pcput, file, core, stack, nofile, memlock, nproc. All
  of these except pvmem and pcput may be unlimited. Sizes end in b, kb, mb, gb, tb (1 kb is 1024 bytes), or
  w, kw, mw, gw (words of eight bytes). Times are seconds, [H:]M:S, or 1d2h3m4s. If the kernel enforces a
  limit, a setuid program gets no additional privileges, unless mpiexec runs as root.

--usage
  hosts: mpiexec prints a line for each host and a line for all hosts: the wall time of the longest rank, the
  CPU time of all ranks and their descendants, and the largest memory use (resident set) at any time. It
  measures memory every second at the beginning of the job, and every 5 s later. If the job was too short for a
  measurement, mpiexec prints >= and the memory use of the largest process. For a job of several ranks, or
  inside a batch system, mpiexec prints four more lines: resources_used.cput, .mem, .vmem and .walltime.
  rank: mpiexec also prints a line for each rank. lines: mpiexec prints only the four lines.
`

// A Sampling asks the helpers to send usage samples.
type Sampling struct {
	Report     string // the form of the report at the end (--usage); empty: none. Helpers do not get it
	Often      bool   // a sample every second, because there is a limit
	SmallRanks bool   // also the memory of ranks that wait4(2) does not know, because it is little
}

// Fields implements wire.Setting: it lists the fields that are sent to helpers.
func (s *Sampling) Fields(c *wire.Codec) {
	c.Bool(&s.Often)
	c.Bool(&s.SmallRanks)
}

func init() {
	option.Register[Options](texts)
	option.RegisterRemoved("enforce-rm", "use --limit hmem=SIZE, with the memory that the batch system granted on each host")
	option.RegisterRemoved("usage-file", "use --usage=lines, which prints the usage on standard error, or --report FILE")
	setup.Register(func(r *setup.Run) error {
		for _, given := range option.ValuesOf[Options](r.Line).Limit {
			r.Limit(given.Bounds, "--limit")
		}
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

// samplingFor returns a request for the samples that helpers must send. It depends on the form of the report,
// on whether the run is recorded, and on the limits. samplingFor returns nil if no samples are needed, so
// that a plain job has no overhead (rule RM-51).
func samplingFor(report string, recorded bool, jobLimits limits.Map) *Sampling {
	measured, limited := report != "" || recorded, jobLimits.AnyMatching(limits.Resource.IsSampled)
	if !measured && !limited {
		return nil
	}
	return &Sampling{report, limited, measured}
}
