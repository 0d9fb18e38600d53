package transcript

import (
	"fmt"
	"io"

	"remshell/cli/option"
	"remshell/cli/setup"
	"remshell/userfile"
	"remshell/wire"
)

// Options are the command-line options of this feature: --pmi-trace.
type Options struct {
	PMITrace string `name:"--pmi-trace" after:"pmi-port" arg:"FILE" topic:"" under:"Reports and queries" help:"write the PMI messages of all ranks to FILE"`
}

const texts = `
--pmi-trace
  Each line of FILE is one message: the rank, the direction and the text.
`

// A Request asks the helpers to send the lines of the transcript. mpiexec writes them to File.
type Request struct{ File io.Writer }

// Fields implements wire.Setting. It sends nothing, because helpers need to know only whether there is a Request.
func (*Request) Fields(*wire.Codec) {}

func init() {
	option.Register[Options](texts)
	setup.Register(func(r *setup.Run) error {
		if name := option.ValuesOf[Options](r.Line).PMITrace; name != "" {
			r.OnLaunch(func() error { return openFile(r, name) })
		}
		return nil
	})
	wire.RegisterSetting[Request](3, new(Request))
}

// openFile creates the file for the transcript. The file stays open until the run ends.
func openFile(r *setup.Run, name string) error {
	file, err := userfile.Create(name)
	if err != nil {
		return fmt.Errorf("--pmi-trace: %w", err)
	}
	r.Set(&Request{file})
	r.OnEnd(func(error) error { return file.Close() })
	return nil
}
