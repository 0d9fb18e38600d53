package bindings

import (
	"remshell/cli/option"
	"remshell/cli/setup"
	"remshell/wire"
)

// Options are the command-line options of this feature: --report-bindings.
type Options struct {
	ReportBindings bool `name:"--report-bindings" after:"save-cluster-state" mca:"hwloc_base_report_bindings" env:"HYDRA_TOPO_DEBUG" topic:"Reports and queries" help:"print the CPUs to which the kernel binds each rank"`
}

const texts = `
--report-bindings
  When all ranks are running, mpiexec prints a line for each rank, such as: rank 3 n1 package 0 core 3
  [...B/....|........]. There is a character for each core: B if the rank is bound to the core, b if the
  rank is bound to some of its hardware threads, - if the core cannot be used, and a dot for each other
  core. The character | separates packages. The character / separates NUMA nodes and caches inside a
  package. For very large nodes, mpiexec prints the numbers of the cores instead.
`

// A Request asks the helpers to report the CPUs of each rank in the Started message.
type Request struct{}

// Fields implements wire.Setting. A Request has no fields, because helpers need to know only whether there is one.
func (*Request) Fields(*wire.Codec) {}

func init() {
	option.Register[Options](texts)
	setup.Register(func(r *setup.Run) error {
		if isWanted(r.Line) {
			r.Set(new(Request))
		}
		return nil
	})
	wire.RegisterSetting[Request](2, new(Request))
}

// isWanted reports whether the command line contains --report-bindings, --bind-to with :report, or --display with bind.
func isWanted(line option.Line) bool {
	return option.ValuesOf[Options](line).ReportBindings || line.Job.BindTo.Report || line.Job.Displays("bind")
}
