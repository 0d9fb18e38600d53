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
	files    []job.StagedFile
	inPlace  bool      // they are where they were: this is the launching machine
	folder   *Folder   // nil: not yet
	receiver *receiver // nil: nothing has to come
}

// IsValid reports whether a Stage can be believed.
func IsValid(m *wire.StageFiles) bool {
	bad := slices.ContainsFunc(m.Files, func(p job.StagedFile) bool {
		return p.Name != filepath.Base(p.Name) || !filepath.IsLocal(p.Name) || p.Size < 0
	})
	return !bad && (m.InPlace || len(m.Sums) == len(m.Files))
}

// New begins to take files to this node, unless they are here; then ready hears of it. environ
// says which folders there are for them.
func New(m *wire.StageFiles, environ []string, send func(wire.Message) error, ready func(*Folder, *rank.Error)) *Staging {
	t := &Staging{files: m.Files, inPlace: m.InPlace}
	if !m.InPlace {
		t.receiver = newReceiver(m, stagingRoots(environ), send, ready)
	}
	return t
}

// TakePiece takes a piece of a file; false if nobody has asked for it.
func (t *Staging) TakePiece(m *wire.FileChunk) bool {
	return t != nil && t.receiver != nil && t.receiver.takePiece(m)
}

// SetFolder notes where all files are.
func (t *Staging) SetFolder(f *Folder) { t.folder = f }

// NeedsLinks reports whether the files stay where they are, and nothing leads to them yet.
func (t *Staging) NeedsLinks() bool { return t.inPlace && t.folder == nil }

// Link makes a folder of links to where the files are.
func (t *Staging) Link(environ []string) (err error) {
	roots := stagingRoots(environ)
	removeLeftFolders(roots)
	if t.folder, err = makeFolder(roots, newFolderName(), nil); err != nil {
		return err
	}
	for _, p := range t.files {
		if err := os.Symlink(p.Path, filepath.Join(t.folder.filesDir(), p.Name)); err != nil {
			return err
		}
	}
	return nil
}

// Path is where a program is.
func (t *Staging) Path(name string) string {
	for _, p := range t.files {
		if p.Name == name && t.inPlace {
			return p.Path
		}
	}
	return filepath.Join(t.folder.filesDir(), name)
}

// Dir is what ranks are told of it; empty: nothing.
func (t *Staging) Dir() string {
	if t == nil || t.folder == nil {
		return ""
	}
	return t.folder.filesDir()
}

// Close removes the files.
func (t *Staging) Close() {
	switch {
	case t == nil:
	case t.receiver != nil:
		t.receiver.close()
	default:
		t.Unlink()
	}
}

// Unlink removes the links. They are made again for ranks that start later.
func (t *Staging) Unlink() {
	if t != nil && t.inPlace && t.folder != nil {
		t.folder.removeAll()
		t.folder = nil
	}
}
