package cleanipc

import (
	"remshell/cli/option"
	"remshell/cli/setup"
	"remshell/wire"
)

// Options are the command-line options of this feature: --clean-ipc.
type Options struct {
	CleanIPC string `name:"--clean-ipc" after:"keep-session" resume:"saved" default:"failed" arg:"WHEN" words:"failed,always,no" topic:"" under:"Life cycle" help:"free shared memory and semaphores: failed, always, no"`
}

const texts = `
--clean-ipc
  failed: of ranks that exit with a code other than 0, or are killed. System V segments that they created and
  no process has attached are removed, and files in /dev/shm that they had open and no process has open. Semaphore
  sets made during the job are removed if processes of these ranks were the last to use each semaphore. always: also
  of ranks that exit with 0. -v lists what was removed.
`

// A Policy says when shared memory and semaphores are freed. Without a Policy it is freed after ranks have failed.
type Policy struct{ When string }

// These are the values of When.
const (
	always = "always"
	never  = "no"
)

// Fields implements wire.Setting: it lists the fields that are sent to helpers.
func (p *Policy) Fields(c *wire.Codec) { c.Word(&p.When, "value of --clean-ipc") }

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
