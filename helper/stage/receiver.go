//go:build linux

package stage

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/rank"
	"remshell/job"
	"remshell/wire"
)

/*
A stager takes the files of a job (--stage) to this node, on a goroutine of its own: a slow
disk stops neither output nor signals.

	Stage --> make a folder, and room --> what is here already is copied --> Wanted
	Piece --> write, hash --> Took                                    ... --> Staged

What is here already may lie under the launcher's own path, on a shared file system, or be
what another job of ours has staged; it is believed by its hash alone, and copied, since
whoever has it may change it. What comes is compared with its hash as well.
*/
type receiver struct {
	send  func(wire.Message) error
	ready func(f *Folder, failed *rank.Error) // all is there, or why it is not
	roots []string
	files []job.StagedFile
	sums  []string

	ctx    context.Context
	stop   context.CancelFunc
	done   chan struct{} // closed when the goroutine has left
	pieces chan *wire.FileChunk

	folder   *Folder
	missing  []int
	file     *os.File // of wanted[0], while it comes
	gotBytes int64
	hash     hash.Hash
}

// maxPieces is how many may come before any is taken: as many as the window has, and the
// last, smaller one of every parcel.
func maxPieces(parcels int) int { return wire.StageWindow/wire.FileChunkSize + parcels + 1 }

func newReceiver(m *wire.StageFiles, roots []string, send func(wire.Message) error, ready func(*Folder, *rank.Error)) *receiver {
	s := &receiver{send: send, ready: ready, roots: roots, files: m.Files, sums: m.Sums,
		done: make(chan struct{}), pieces: make(chan *wire.FileChunk, maxPieces(len(m.Files)))}
	s.ctx, s.stop = context.WithCancel(context.Background())
	go func() {
		defer close(s.done)
		err := s.run()
		if s.file != nil {
			s.file.Close()
		}
		if s.ctx.Err() == nil {
			s.ready(s.folder, err)
		}
	}()
	return s
}

// takePiece takes a piece; false if it is more than may come.
func (s *receiver) takePiece(m *wire.FileChunk) bool {
	select {
	case s.pieces <- m:
		return true
	default:
		return false
	}
}

// close ends the work and removes the files.
func (s *receiver) close() {
	if s == nil {
		return
	}
	s.stop()
	<-s.done
	if s.folder != nil {
		s.folder.removeAll()
	}
}

func (s *receiver) run() *rank.Error {
	removeLeftFolders(s.roots)
	var err error
	if s.folder, err = makeFolder(s.roots, newFolderName(), s.files); err != nil {
		return rank.InternalError(fmt.Sprintf("no folder takes the files to stage (%s): %v", sizeText(s.files), err),
			"make room there, or set TMPDIR there to a folder that has it")
	}
	var twins []int // parcels that are the same as one before them
	for i := range s.files {
		if s.firstEqual(i) < i {
			twins = append(twins, i)
			continue
		}
		found, err := s.findHere(i)
		if err != nil {
			return s.stageError(i, err)
		}
		if !found {
			s.missing = append(s.missing, i)
		}
	}
	s.send(&wire.MissingFiles{Files: s.missing})
	for len(s.missing) > 0 {
		select {
		case m := <-s.pieces:
			if err := s.writePiece(m); err != nil {
				return s.stageError(s.missing[0], err)
			}
		case <-s.ctx.Done():
			return nil
		}
	}
	for _, i := range twins {
		if found, err := s.copyFile(i, s.filePath(s.firstEqual(i))); err != nil || !found {
			return s.stageError(i, cmp.Or(err, errChanged))
		}
	}
	return nil
}

// firstEqual is the first parcel that has the same in it.
func (s *receiver) firstEqual(i int) int { return slices.Index(s.sums, s.sums[i]) }

// errChanged is a file that is not what mpiexec has announced.
var errChanged = errors.New("it changed while it was sent")

func (s *receiver) stageError(i int, err error) *rank.Error {
	failed := rank.InternalError(fmt.Sprintf("stage %s: %v", s.files[i].Path, rank.WithoutPath(err)), "")
	switch {
	case errors.Is(err, errChanged):
		failed.Hint = "start again when nobody writes to it"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		failed.Hint = "make room in " + filepath.Dir(filepath.Dir(s.folder.dir)) + " there, or set TMPDIR there to a folder that has it"
	}
	return failed
}

// writePiece takes in what comes next of the parcel that is wanted first.
func (s *receiver) writePiece(m *wire.FileChunk) error {
	i := s.missing[0]
	if err := m.Inflate(); err != nil {
		return err
	}
	if s.file == nil {
		if err := s.openFile(i); err != nil {
			return err
		}
	}
	if m.File != i || len(m.Bytes) == 0 || s.gotBytes+int64(len(m.Bytes)) > s.files[i].Size {
		return fmt.Errorf("%d bytes of file %d came where the rest of %d was wanted", len(m.Bytes), m.File, i)
	}
	if _, err := s.file.Write(m.Bytes); err != nil {
		return err
	}
	s.hash.Write(m.Bytes)
	s.gotBytes += int64(len(m.Bytes))
	if s.gotBytes == s.files[i].Size {
		if err := s.finishFile(i); err != nil {
			return err
		}
		s.missing = s.missing[1:]
	}
	s.send(&wire.FileCredit{Bytes: len(m.Bytes)})
	return nil
}

// openFile begins with a parcel anew.
func (s *receiver) openFile(i int) (err error) {
	s.gotBytes, s.hash = 0, sha256.New()
	s.file, err = os.OpenFile(s.filePath(i), os.O_WRONLY|unix.O_NOFOLLOW, 0)
	return err
}

func (s *receiver) filePath(i int) string { return filepath.Join(s.folder.filesDir(), s.files[i].Name) }

// finishFile sees that a parcel is what it should be, and lets other jobs see it.
func (s *receiver) finishFile(i int) error {
	file := s.file
	s.file = nil
	var err error
	if hex.EncodeToString(s.hash.Sum(nil)) != s.sums[i] {
		err = errChanged
	} else {
		err = file.Chmod(os.FileMode(s.files[i].Mode))
	}
	if failed := file.Close(); err == nil {
		err = failed
	}
	if err == nil {
		os.Link(s.filePath(i), s.folder.sumPath(s.sums[i])) // without it nobody copies from us
	}
	return err
}

// findHere copies a parcel from where it is on this node, if it is.
func (s *receiver) findHere(i int) (bool, error) {
	if s.files[i].Size == 0 {
		err := s.openFile(i)
		if err == nil {
			err = s.finishFile(i)
		}
		return err == nil, err
	}
	for _, path := range s.sources(i) {
		found, err := s.copyFile(i, path)
		if found || err != nil || s.ctx.Err() != nil {
			return found, err
		}
	}
	return false, nil
}

// sources are where a parcel may be.
func (s *receiver) sources(i int) []string {
	sources := []string{}
	if filepath.IsAbs(s.files[i].Path) {
		sources = append(sources, s.files[i].Path)
	}
	for _, root := range s.roots {
		eachStaged(root, func(_, stage *os.Root, name string) {
			file := filepath.Join(name, "sha256-"+s.sums[i])
			if _, err := stage.Lstat(file); err == nil {
				sources = append(sources, filepath.Join(root, "stage", file))
			}
		})
	}
	return sources
}

// copyFile copies a file, if it is the parcel. What cannot be read is not.
func (s *receiver) copyFile(i int, path string) (bool, error) {
	from, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false, nil
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() != s.files[i].Size {
		return false, nil
	}
	if err := s.openFile(i); err != nil {
		return false, err
	}
	if err := s.copyBytes(from, s.files[i].Size); err != nil {
		return false, err
	}
	if err = s.finishFile(i); errors.Is(err, errChanged) {
		return false, nil
	}
	return err == nil, err
}

// progressEvery is how often mpiexec is told that a copy goes on.
const progressEvery = time.Second

// copyBytes writes what there is to read, at most so much; the error is that of a write.
func (s *receiver) copyBytes(from io.Reader, most int64) error {
	buf := make([]byte, wire.FileChunkSize)
	told := time.Now()
	for s.gotBytes < most && s.ctx.Err() == nil {
		n, err := from.Read(buf[:min(most-s.gotBytes, int64(len(buf)))])
		if _, failed := s.file.Write(buf[:n]); failed != nil {
			return failed
		}
		s.hash.Write(buf[:n])
		s.gotBytes += int64(n)
		if err != nil {
			return nil
		}
		if time.Since(told) > progressEvery {
			told = time.Now()
			s.send(&wire.FileCredit{})
		}
	}
	return nil
}

// sizeText is how much parcels are together, for people.
func sizeText(parcels []job.StagedFile) string {
	size := 0.0
	for _, p := range parcels {
		size += float64(p.Size)
	}
	for _, unit := range []string{"bytes", "KiB", "MiB"} {
		if size < 1024 {
			return fmt.Sprintf("%.4g %s", size, unit)
		}
		size /= 1024
	}
	return fmt.Sprintf("%.4g GiB", size)
}
