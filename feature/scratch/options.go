package scratch

import (
	"path/filepath"

	"remshell/cli/option"
	"remshell/cli/setup"
	"remshell/usererr"
	"remshell/wire"
)

// Options are the command-line options of this feature: --scratch.
type Options struct {
	Scratch     string `name:"--scratch" after:"stage-program exclude" resume:"saved" takes:"attached" arg:"DIR" implied:"TMPDIR" topic:"" under:"Environment" help:"create a folder for the job on each host (TMPDIR)"`
	KeepScratch bool   `name:"--keep-scratch" after:"scratch" resume:"saved" needs:"scratch" topic:"" under:"Environment" help:"do not remove the folders of --scratch"`
}

const texts = `
--scratch
  mpiexec creates the folder below DIR on each host. Default: TMPDIR of the host, else /tmp. Only you can
  enter the folder. Ranks find its path in TMPDIR and MPIEXEC_SCRATCH. When the ranks of the host have
  ended, mpiexec removes the folder with all its contents, even if the ranks or mpiexec are killed. mpiexec
  does not follow links, and does not enter file systems that are mounted in the folder. With
  --leave-children, it does not remove the folder.
--keep-scratch
  mpiexec prints the paths of the folders at the end. You have to remove the folders.
`

// hostDefault is the value of --scratch that selects the TMPDIR of each host, or /tmp on a host without TMPDIR.
const hostDefault = "TMPDIR"

// A Folder asks the helpers to make a folder for temporary files. Dir is the directory in which they make it. If Dir is
// empty, they use the TMPDIR of the host, or /tmp.
type Folder struct {
	Dir  string
	Keep bool // do not remove it
}

// Fields implements wire.Setting: it lists the fields that are sent to helpers.
func (f *Folder) Fields(c *wire.Codec) {
	c.Text(&f.Dir, pathLength)
	c.Bool(&f.Keep)
}

var pathLength = wire.Length{Name: "path", Max: 4 << 10}

func init() {
	option.Register[Options](texts)
	setup.Register(func(r *setup.Run) error {
		o := option.ValuesOf[Options](r.Line)
		if o.Scratch == "" {
			return nil
		}
		f := &Folder{Keep: o.KeepScratch}
		if o.Scratch != hostDefault {
			if f.Dir = filepath.Clean(o.Scratch); !filepath.IsAbs(f.Dir) {
				return &usererr.Error{Text: "--scratch " + o.Scratch + " is not an absolute path", Remedy: "give a folder that the hosts have: --scratch=/var/tmp"}
			}
		}
		r.Set(f)
		return nil
	})
	wire.RegisterSetting[Folder](21, &Folder{Dir: "/scratch", Keep: true})
}
