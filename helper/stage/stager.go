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
type stager struct {
	send    func(wire.Message) error
	ready   func(f *Folder, failed *rank.Error) // all is there, or why it is not
	roots   []string
	parcels []job.Parcel
	sums    []string

	ctx    context.Context
	stop   context.CancelFunc
	done   chan struct{} // closed when the goroutine has left
	pieces chan *wire.Piece

	folder *Folder
	wanted []int
	file   *os.File // of wanted[0], while it comes
	got    int64
	hash   hash.Hash
}

// maxPieces is how many may come before any is taken: as many as the window has, and the
// last, smaller one of every parcel.
func maxPieces(parcels int) int { return wire.StageWindow/wire.PieceSize + parcels + 1 }

func newStager(m *wire.Stage, roots []string, send func(wire.Message) error, ready func(*Folder, *rank.Error)) *stager {
	s := &stager{send: send, ready: ready, roots: roots, parcels: m.Parcels, sums: m.Sums,
		done: make(chan struct{}), pieces: make(chan *wire.Piece, maxPieces(len(m.Parcels)))}
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

// take takes a piece; false if it is more than may come.
func (s *stager) take(m *wire.Piece) bool {
	select {
	case s.pieces <- m:
		return true
	default:
		return false
	}
}

// close ends the work and removes the files.
func (s *stager) close() {
	if s == nil {
		return
	}
	s.stop()
	<-s.done
	if s.folder != nil {
		s.folder.remove()
	}
}

func (s *stager) run() *rank.Error {
	sweep(s.roots)
	var err error
	if s.folder, err = makeFolder(s.roots, newName(), s.parcels); err != nil {
		return rank.Internal(fmt.Sprintf("no folder takes the files to stage (%s): %v", bytesOf(s.parcels), err),
			"make room there, or set TMPDIR there to a folder that has it")
	}
	var twins []int // parcels that are the same as one before them
	for i := range s.parcels {
		if s.twin(i) < i {
			twins = append(twins, i)
			continue
		}
		found, err := s.find(i)
		if err != nil {
			return s.broken(i, err)
		}
		if !found {
			s.wanted = append(s.wanted, i)
		}
	}
	s.send(&wire.Wanted{Parcels: s.wanted})
	for len(s.wanted) > 0 {
		select {
		case m := <-s.pieces:
			if err := s.write(m); err != nil {
				return s.broken(s.wanted[0], err)
			}
		case <-s.ctx.Done():
			return nil
		}
	}
	for _, i := range twins {
		if found, err := s.copy(i, s.path(s.twin(i))); err != nil || !found {
			return s.broken(i, cmp.Or(err, errChanged))
		}
	}
	return nil
}

// twin is the first parcel that has the same in it.
func (s *stager) twin(i int) int { return slices.Index(s.sums, s.sums[i]) }

// errChanged is a file that is not what mpiexec has announced.
var errChanged = errors.New("it changed while it was sent")

func (s *stager) broken(i int, err error) *rank.Error {
	failed := rank.Internal(fmt.Sprintf("stage %s: %v", s.parcels[i].Path, rank.BareErr(err)), "")
	switch {
	case errors.Is(err, errChanged):
		failed.Hint = "start again when nobody writes to it"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		failed.Hint = "make room in " + filepath.Dir(filepath.Dir(s.folder.dir)) + " there, or set TMPDIR there to a folder that has it"
	}
	return failed
}

// write takes in what comes next of the parcel that is wanted first.
func (s *stager) write(m *wire.Piece) error {
	i := s.wanted[0]
	if err := m.Inflate(); err != nil {
		return err
	}
	if s.file == nil {
		if err := s.open(i); err != nil {
			return err
		}
	}
	if m.Parcel != i || len(m.Bytes) == 0 || s.got+int64(len(m.Bytes)) > s.parcels[i].Size {
		return fmt.Errorf("%d bytes of file %d came where the rest of %d was wanted", len(m.Bytes), m.Parcel, i)
	}
	if _, err := s.file.Write(m.Bytes); err != nil {
		return err
	}
	s.hash.Write(m.Bytes)
	s.got += int64(len(m.Bytes))
	if s.got == s.parcels[i].Size {
		if err := s.finish(i); err != nil {
			return err
		}
		s.wanted = s.wanted[1:]
	}
	s.send(&wire.Took{Bytes: len(m.Bytes)})
	return nil
}

// open begins with a parcel anew.
func (s *stager) open(i int) (err error) {
	s.got, s.hash = 0, sha256.New()
	s.file, err = os.OpenFile(s.path(i), os.O_WRONLY|unix.O_NOFOLLOW, 0)
	return err
}

func (s *stager) path(i int) string { return filepath.Join(s.folder.files(), s.parcels[i].Name) }

// finish sees that a parcel is what it should be, and lets other jobs see it.
func (s *stager) finish(i int) error {
	file := s.file
	s.file = nil
	var err error
	if hex.EncodeToString(s.hash.Sum(nil)) != s.sums[i] {
		err = errChanged
	} else {
		err = file.Chmod(os.FileMode(s.parcels[i].Mode))
	}
	if failed := file.Close(); err == nil {
		err = failed
	}
	if err == nil {
		os.Link(s.path(i), s.folder.sum(s.sums[i])) // without it nobody copies from us
	}
	return err
}

// find copies a parcel from where it is on this node, if it is.
func (s *stager) find(i int) (bool, error) {
	if s.parcels[i].Size == 0 {
		err := s.open(i)
		if err == nil {
			err = s.finish(i)
		}
		return err == nil, err
	}
	for _, path := range s.sources(i) {
		found, err := s.copy(i, path)
		if found || err != nil || s.ctx.Err() != nil {
			return found, err
		}
	}
	return false, nil
}

// sources are where a parcel may be.
func (s *stager) sources(i int) []string {
	sources := []string{}
	if filepath.IsAbs(s.parcels[i].Path) {
		sources = append(sources, s.parcels[i].Path)
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

// copy copies a file, if it is the parcel. What cannot be read is not.
func (s *stager) copy(i int, path string) (bool, error) {
	from, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false, nil
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() != s.parcels[i].Size {
		return false, nil
	}
	if err := s.open(i); err != nil {
		return false, err
	}
	if err := s.pour(from, s.parcels[i].Size); err != nil {
		return false, err
	}
	if err = s.finish(i); errors.Is(err, errChanged) {
		return false, nil
	}
	return err == nil, err
}

// atWork is how often mpiexec is told that a copy goes on.
const atWork = time.Second

// pour writes what there is to read, at most so much; the error is that of a write.
func (s *stager) pour(from io.Reader, most int64) error {
	buf := make([]byte, wire.PieceSize)
	told := time.Now()
	for s.got < most && s.ctx.Err() == nil {
		n, err := from.Read(buf[:min(most-s.got, int64(len(buf)))])
		if _, failed := s.file.Write(buf[:n]); failed != nil {
			return failed
		}
		s.hash.Write(buf[:n])
		s.got += int64(n)
		if err != nil {
			return nil
		}
		if time.Since(told) > atWork {
			told = time.Now()
			s.send(&wire.Took{})
		}
	}
	return nil
}

// bytesOf is how much parcels are together, for people.
func bytesOf(parcels []job.Parcel) string {
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
