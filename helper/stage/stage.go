//go:build linux

/*
Package stage copies the files of a job (--stage) to a node and removes them at its end. If the files are on the
machine already, it makes links to them (doc/adr/0009).
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

// A Staging is the staged files of this node. A nil Staging has no files.
type Staging struct {
	files    []job.StagedFile
	inPlace  bool      // the files are not copied: mpiexec runs on this machine
	folder   *Folder   // nil: not made yet
	receiver *receiver // nil: no file has to be received
}

// IsValid reports whether a StageFiles message is well formed.
func IsValid(m *wire.StageFiles) bool {
	bad := slices.ContainsFunc(m.Files, func(p job.StagedFile) bool {
		return p.Name != filepath.Base(p.Name) || !filepath.IsLocal(p.Name) || p.Size < 0
	})
	return !bad && (m.InPlace || len(m.Sums) == len(m.Files))
}

// New starts to receive files on this node. ready is called when all are there, or with the failure; it is not called
// if the files are in place. environ names the folders that may be used.
func New(m *wire.StageFiles, environ []string, send func(wire.Message) error, ready func(*Folder, *rank.Error)) *Staging {
	t := &Staging{files: m.Files, inPlace: m.InPlace}
	if !m.InPlace {
		t.receiver = newReceiver(m, stagingRoots(environ), send, ready)
	}
	return t
}

// TakePiece takes a chunk of a file. It returns false if the chunk was not requested.
func (t *Staging) TakePiece(m *wire.FileChunk) bool {
	return t != nil && t.receiver != nil && t.receiver.takePiece(m)
}

// SetFolder sets the folder that has all files.
func (t *Staging) SetFolder(f *Folder) { t.folder = f }

// NeedsLinks reports whether the files are in place and have no links yet.
func (t *Staging) NeedsLinks() bool { return t.inPlace && t.folder == nil }

// Link makes a folder with links to the files.
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

// Path returns the path of a staged program.
func (t *Staging) Path(name string) string {
	for _, p := range t.files {
		if p.Name == name && t.inPlace {
			return p.Path
		}
	}
	return filepath.Join(t.folder.filesDir(), name)
}

// Dir returns the folder that ranks get in MPIEXEC_STAGE_DIR. It is empty if there is none.
func (t *Staging) Dir() string {
	if t == nil || t.folder == nil {
		return ""
	}
	return t.folder.filesDir()
}

// Close removes the staged files.
func (t *Staging) Close() {
	switch {
	case t == nil:
	case t.receiver != nil:
		t.receiver.close()
	default:
		t.Unlink()
	}
}

// Unlink removes the links. Link makes them again for ranks that start later.
func (t *Staging) Unlink() {
	if t != nil && t.inPlace && t.folder != nil {
		t.folder.removeAll()
		t.folder = nil
	}
}
