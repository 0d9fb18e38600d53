package status

import (
	"remshell/cli/option"
	"remshell/cli/setup"
)

// Options are the options of the feature.
type Options struct {
	OnTimeout string `name:"--on-timeout" after:"print-all-exitcodes" also:"--get-stack-traces=stacks" arg:"WHAT" words:"kill,stacks" topic:"" under:"Life cycle" help:"at -timeout: kill, or first print stacks"`
}

const texts = `
--on-timeout
  In both cases a table shows what each rank was doing. stacks first sends SIGQUIT, which makes many
  runtimes (Java, Go) print their stacks, and waits 2 s. For ranks that do not catch SIGQUIT, such as those
  in C, it first prints the output of gdb or eu-stack of the host, or else of the kernel (/proc/PID/wchan,
  syscall, stack), within 4 s for each host.
`

func init() {
	option.Register[Options](texts)
	setup.Register(func(r *setup.Run) error {
		if option.ValuesOf[Options](r.Line).OnTimeout == "stacks" {
			r.OnRequest(func() error {
				r.Request.EndPolicy.StacksOnTimeout = true
				return nil
			})
		}
		return nil
	})
}
