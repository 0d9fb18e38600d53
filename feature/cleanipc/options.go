package cleanipc

import (
	"remshell/cli/option"
	"remshell/cli/setup"
	"remshell/wire"
)

// Options are the command-line options of this feature: --clean-ipc.
type Options struct {
	CleanIPC string `name:"--clean-ipc" after:"keep-session" resume:"saved" default:"failed" arg:"WHEN" words:"failed,always,no" topic:"" under:"Life cycle" help:"remove IPC objects of ranks: failed, always, no"`
}

const texts = `
--clean-ipc
  failed: mpiexec removes shared memory and semaphores of ranks that were killed or exited with a code other
  than 0. It removes System V segments that these ranks created and that no process uses, and files in
  /dev/shm that the ranks had open and that no process has open now. It removes semaphore sets that were
  created during the job and were last used by processes of these ranks. always: mpiexec does the same for
  ranks that exit with 0. -v lists the removed objects.
`

// A Policy says when shared memory and semaphores are freed. Without a Policy they are freed only after ranks
// have failed.
type Policy struct{ When string }

// These are the values of Policy.When.
const (
	always = "always"
	never  = "no"
)

// Fields implements wire.Setting: it lists the fields that are sent to helpers.
func (p *Policy) Fields(c *wire.Codec) { c.Word(&p.When, "--clean-ipc") }

func init() {
	option.Register[Options](texts)
	setup.Register(func(r *setup.Run) error {
		if when := option.ValuesOf[Options](r.Line).CleanIPC; when == always || when == never {
			r.Set(&Policy{when})
		}
		return nil
	})
	wire.RegisterSetting[Policy](1, &Policy{always}, &Policy{never})
}
