//go:build linux

/*
Package stage takes the files of a job (--stage) to a node and removes them at its end; where they
are on the machine already, links lead to them (doc/adr/0009).
*/
package stage

import (
	"os"
	"path/filepath"
	"slices"

	"remshell/helper/rank"
	"remshell/job"
	"remshell/wire"
)

// A Staging is the files that the ranks of this node are to find. A nil one is none.
type Staging struct {
	parcels []job.Parcel
	here    bool    // they are where they were: this is the launching machine
	folder  *Folder // nil: not yet
	stager  *stager // nil: nothing has to come
}

// Fit reports whether a Stage can be believed.
func Fit(m *wire.Stage) bool {
	bad := slices.ContainsFunc(m.Parcels, func(p job.Parcel) bool {
		return p.Name != filepath.Base(p.Name) || !filepath.IsLocal(p.Name) || p.Size < 0
	})
	return !bad && (m.Here || len(m.Sums) == len(m.Parcels))
}

// New begins to take files to this node, unless they are here; then ready hears of it. environ
// says which folders there are for them.
func New(m *wire.Stage, environ []string, send func(wire.Message) error, ready func(*Folder, *rank.Error)) *Staging {
	t := &Staging{parcels: m.Parcels, here: m.Here}
	if !m.Here {
		t.stager = newStager(m, rootsOf(environ), send, ready)
	}
	return t
}

// Take takes a piece of a file; false if nobody has asked for it.
func (t *Staging) Take(m *wire.Piece) bool { return t != nil && t.stager != nil && t.stager.take(m) }

// Arrived notes where all files are.
func (t *Staging) Arrived(f *Folder) { t.folder = f }

// Unlinked reports whether the files stay where they are, and nothing leads to them yet.
func (t *Staging) Unlinked() bool { return t.here && t.folder == nil }

// Link makes a folder of links to where the files are.
func (t *Staging) Link(environ []string) (err error) {
	roots := rootsOf(environ)
	sweep(roots)
	if t.folder, err = makeFolder(roots, newName(), nil); err != nil {
		return err
	}
	for _, p := range t.parcels {
		if err := os.Symlink(p.Path, filepath.Join(t.folder.files(), p.Name)); err != nil {
			return err
		}
	}
	return nil
}

// Path is where a program is.
func (t *Staging) Path(name string) string {
	for _, p := range t.parcels {
		if p.Name == name && t.here {
			return p.Path
		}
	}
	return filepath.Join(t.folder.files(), name)
}

// Dir is what ranks are told of it; empty: nothing.
func (t *Staging) Dir() string {
	if t == nil || t.folder == nil {
		return ""
	}
	return t.folder.files()
}

// Close removes the files.
func (t *Staging) Close() {
	switch {
	case t == nil:
	case t.stager != nil:
		t.stager.close()
	default:
		t.Unlink()
	}
}

// Unlink removes the links. They are made again for ranks that start later.
func (t *Staging) Unlink() {
	if t != nil && t.here && t.folder != nil {
		t.folder.remove()
		t.folder = nil
	}
}
