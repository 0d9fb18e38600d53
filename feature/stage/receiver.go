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
A receiver copies the files of a job (--stage) to this node, on a goroutine of its own, so that a slow disk delays
neither output nor signals.

	StageFiles --> make a folder, reserve space --> copy files found here --> request the others
	FileChunk  --> write, hash --> credit                               ... --> StageResult

A file may be on this node already: under mpiexec's own path on a shared file system, or staged by another job of this
user. Such a file is recognized only by its hash. The receiver copies it, because other processes may change the
original. The hashes of received files are checked, too.
*/
type receiver struct {
	send  func(wire.Message) error
	ready func(f *folder, failed *rank.Error) // called when all files are there, or with the failure
	roots []string
	files []job.StagedFile
	sums  []string

	ctx    context.Context
	stop   context.CancelFunc
	done   chan struct{} // closed when run returns
	pieces chan *FileChunk

	folder   *folder
	missing  []int
	file     *os.File // wanted[0], while it is received
	gotBytes int64
	hash     hash.Hash
}

// maxPieces returns the maximum number of chunks that may be queued: as many as mpiexec may send ahead, and a smaller
// last chunk for each file.
func maxPieces(files int) int { return window/chunkSize + files + 1 }

func newReceiver(m *StageFiles, roots []string, send func(wire.Message) error, ready func(*folder, *rank.Error)) *receiver {
	s := &receiver{send: send, ready: ready, roots: roots, files: m.Files, sums: m.Sums,
		done: make(chan struct{}), pieces: make(chan *FileChunk, maxPieces(len(m.Files)))}
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

// takePiece queues a chunk. It returns false if more chunks are queued than maxPieces allows.
func (s *receiver) takePiece(m *FileChunk) bool {
	select {
	case s.pieces <- m:
		return true
	default:
		return false
	}
}

// close stops the receiver and removes the staged files.
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
		return rank.InternalError(fmt.Sprintf("no folder has space for the files of --stage (%s): %v", sizeText(s.files), err),
			"free space on the host, or set TMPDIR there to a folder with enough space")
	}
	var duplicates []int // files with the same contents as an earlier one
	for i := range s.files {
		if s.firstEqual(i) < i {
			duplicates = append(duplicates, i)
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
	s.send(&MissingFiles{Files: s.missing})
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
	for _, i := range duplicates {
		if found, err := s.copyFile(i, s.filePath(s.firstEqual(i))); err != nil || !found {
			return s.stageError(i, cmp.Or(err, errChanged))
		}
	}
	return nil
}

// firstEqual returns the index of the first file that has the same contents as file i.
func (s *receiver) firstEqual(i int) int { return slices.Index(s.sums, s.sums[i]) }

// errChanged is returned for a file that does not match the hash that mpiexec has sent.
var errChanged = errors.New("the file changed while mpiexec sent it")

func (s *receiver) stageError(i int, err error) *rank.Error {
	failed := rank.InternalError(fmt.Sprintf("stage %s: %v", s.files[i].Path, rank.WithoutPath(err)), "")
	switch {
	case errors.Is(err, errChanged):
		failed.Hint = "when no program is writing to the file any more, start the job again"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		failed.Hint = "free space in " + filepath.Dir(filepath.Dir(s.folder.dir)) + " on the host, or set TMPDIR there to a folder with enough space"
	}
	return failed
}

// writePiece writes the next chunk of the file that is being received.
func (s *receiver) writePiece(m *FileChunk) error {
	i := s.missing[0]
	if err := m.inflate(); err != nil {
		return err
	}
	if s.file == nil {
		if err := s.openFile(i); err != nil {
			return err
		}
	}
	if m.File != i || len(m.Bytes) == 0 || s.gotBytes+int64(len(m.Bytes)) > s.files[i].Size {
		return fmt.Errorf("mpiexec sent %d bytes of file %d, but the host waits for the remaining bytes of file %d", len(m.Bytes), m.File, i)
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
	s.send(&FileCredit{Bytes: len(m.Bytes)})
	return nil
}

// openFile opens file i for writing from its start.
func (s *receiver) openFile(i int) (err error) {
	s.gotBytes, s.hash = 0, sha256.New()
	s.file, err = os.OpenFile(s.filePath(i), os.O_WRONLY|unix.O_NOFOLLOW, 0)
	return err
}

func (s *receiver) filePath(i int) string { return filepath.Join(s.folder.filesDir(), s.files[i].Name) }

// finishFile checks the hash of file i and sets its mode. It also makes a hard link to the file under its hash, by
// which other jobs of the user find the file and copy it.
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
		os.Link(s.filePath(i), s.folder.sumPath(s.sums[i])) // if this fails, other jobs cannot copy the file
	}
	return err
}

// findHere copies file i if the file is on this node already. It returns false if the file is not on this node. If
// file i is empty, findHere creates it.
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

// sources returns the paths under which file i may be on this node.
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

// copyFile copies the file at path if its contents match the hash of file i. It returns false if the contents
// do not match or cannot be read.
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

// progressEvery is the interval at which the receiver reports to mpiexec that it is still copying a file.
const progressEvery = time.Second

// copyBytes copies at most limit bytes of src. It returns only write errors, and treats a read error as the end of src.
func (s *receiver) copyBytes(src io.Reader, limit int64) error {
	buf := make([]byte, chunkSize)
	reported := time.Now()
	for s.gotBytes < limit && s.ctx.Err() == nil {
		n, err := src.Read(buf[:min(limit-s.gotBytes, int64(len(buf)))])
		if _, failed := s.file.Write(buf[:n]); failed != nil {
			return failed
		}
		s.hash.Write(buf[:n])
		s.gotBytes += int64(n)
		if err != nil {
			return nil
		}
		if time.Since(reported) > progressEvery {
			reported = time.Now()
			s.send(&FileCredit{})
		}
	}
	return nil
}

// sizeText returns the total size of files, as a text for messages.
func sizeText(files []job.StagedFile) string {
	size := 0.0
	for _, p := range files {
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
