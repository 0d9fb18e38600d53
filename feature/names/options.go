package names

import (
	"remshell/cli/option"
	"remshell/cli/setup"
	"remshell/usererr"
	"remshell/wire"
)

// Options are the command-line options of this feature: --names.
type Options struct {
	Names      string `name:"--names" after:"spawn-hosts" resume:"saved" default:"job" arg:"WHO" words:"job,user,all" topic:"" under:"Life cycle" help:"jobs that can find published names: job, user, all"`
	NameServer string `name:"-nameserver" after:"names" resume:"saved" arg:"HOST" topic:"" under:"Life cycle" help:"keep the published names of your jobs on HOST"`
}

const texts = `
--names
  Ranks publish names by MPI_Publish_name; with Open MPI, MPI_Open_port publishes names, too. job: only
  ranks of the same job can find a name. user: ranks of all your jobs with --names user or --names all can
  find it, if these jobs keep names on the same host: the host of -nameserver, else the queue host, else
  this machine. all: ranks find the same names as with user, and also names of other users who use --names all,
  unless you have published the same name. mpiexec removes a name when the job that published it ends. If two jobs
  publish the same name, the second one gets an error.
-nameserver
  The option implies --names user, unless --names all is given. HOST is a host to which you can connect. It
  needs no running server: mpiexec starts a helper on HOST when a rank first publishes or looks up a name.
`

// These are the values of --names.
const (
	ofJob  = "job"
	ofUser = "user"
	ofAll  = "all"
)

// A Scope says that ranks of other jobs can find the names. Without a Scope, each job has names of its own.
type Scope struct {
	AnyUser bool   // look-ups also find names of other users, and other users find names of the job
	Host    string // keeps the names; empty: the queue host, or the launching machine
}

// Fields implements wire.Setting: it lists the fields that are sent to helpers.
func (s *Scope) Fields(c *wire.Codec) {
	c.Bool(&s.AnyUser)
	c.Text(&s.Host, hostLength)
}

var hostLength = wire.Length{Name: "host", Max: 4 << 10}

// newScope returns the Scope of a command line, or nil if only ranks of the same job can find the names.
func newScope(o Options) (*Scope, error) {
	switch {
	case o.Names == ofJob && o.NameServer != "":
		return nil, &usererr.Error{Text: "-nameserver cannot be used with --names job, which keeps names within one job", Remedy: "leave out --names job"}
	case o.Names == ofUser, o.Names == ofAll, o.NameServer != "":
		return &Scope{AnyUser: o.Names == ofAll, Host: o.NameServer}, nil
	}
	return nil, nil
}

func init() {
	option.Register[Options](texts)
	setup.Register(func(r *setup.Run) error {
		scope, err := newScope(option.ValuesOf[Options](r.Line))
		if err != nil || scope == nil {
			return err
		}
		r.Set(scope)
		r.OnRequest(func() error {
			r.Request.NeedsOtherHosts = true
			return nil
		})
		return nil
	})
	wire.RegisterSetting[Scope](41, &Scope{AnyUser: true, Host: "n1"})
}
