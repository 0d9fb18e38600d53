// Package stacktest contains recorded threads for tests of the unwinder, which is a function of registers,
// memory and ELF files.
package stacktest

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"time"

	"remshell/stack"
	"remshell/stack/python"
)

// A Snapshot is a recorded thread: the data that the unwinder has read, and the frames that it must return.
type Snapshot struct {
	Arch      stack.Arch
	Registers []uint64 // as stack.FromUser takes them
	Memory    []Piece
	Mappings  []Mapping
	Files     []File
	Want      []string // the frames, innermost first
}

// A Piece is a part of a memory or file.
type Piece struct {
	At    uint64
	Bytes []byte
}

// A Mapping is a memory mapping of the recorded process. Its file is an index into Snapshot.Files, or -1 if
// there is none.
type Mapping struct {
	Start, End, Offset uint64
	Path               string
	File               int
}

// A File contains the parts of a file that the unwinder has read.
type File struct{ Pieces []Piece }

// Load reads a snapshot from the file with the given name.
func Load(name string) (s *Snapshot, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return s, json.NewDecoder(r).Decode(&s)
}

// Save writes the snapshot to the file with the given name.
func (s *Snapshot) Save(name string) error {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err := json.NewEncoder(w).Encode(s); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}

// Frames unwinds the thread. It returns the native functions with their files and lines, innermost first, and
// after them the Python functions.
func (s *Snapshot) Frames() (frames []string) {
	images := make([]*stack.Image, len(s.Files))
	for i := range s.Files {
		images[i], _ = stack.OpenImage(&s.Files[i])
	}
	var mappings []stack.Mapping
	for _, m := range s.Mappings {
		mapping := stack.Mapping{Start: m.Start, End: m.End, Offset: m.Offset, Path: m.Path}
		if m.File >= 0 && m.File < len(images) {
			mapping.Image = images[m.File]
		}
		mappings = append(mappings, mapping)
	}
	return Frames(s.Arch, s.Registers, s.ReadMemory, mappings)
}

// Frames unwinds a thread as Snapshot.Frames does.
func Frames(arch stack.Arch, registers []uint64, mem stack.Memory, mappings []stack.Mapping) (frames []string) {
	regs, _ := stack.FromUser(arch, registers)
	for _, a := range stack.Unwind(arch, regs, mem, mappings) {
		if a.Mapping == nil || a.Mapping.Image == nil {
			frames = append(frames, "?")
			continue
		}
		for _, l := range a.Mapping.Image.Symbolize([]uint64{a.Address}, time.Now().Add(time.Minute))[a.Address] {
			frames = append(frames, textOf(l))
		}
	}
	py := new(python.Finder).Find(mappings, mem)
	if py == nil {
		return frames
	}
	for _, c := range py.Calls(mem, regs.ThreadPointer, 0) {
		if l, ok := py.Locate(mem, c); ok {
			frames = append(frames, "Python "+textOf(l))
		}
	}
	return frames
}

func textOf(l stack.Location) string {
	if l.File == "" {
		return l.Function
	}
	return fmt.Sprintf("%s %s:%d", l.Function, path.Base(l.File), l.Line)
}

// ReadMemory reads the recorded memory. It implements stack.Memory.
func (s *Snapshot) ReadMemory(address uint64, to []byte) bool {
	return readPieces(s.Memory, address, to) == len(to)
}

// ReadAt reads the recorded parts of a file. Parts that were not recorded read as zeros.
func (f *File) ReadAt(to []byte, at int64) (int, error) {
	clear(to)
	for done := 0; done < len(to); {
		n := readPieces(f.Pieces, uint64(at)+uint64(done), to[done:])
		if n == 0 { // up to the next block
			n = min(len(to)-done, block-int((uint64(at)+uint64(done))%block))
		}
		done += n
	}
	return len(to), nil
}

// readPieces reads from adjacent pieces, which must be sorted by address. It returns the number of bytes
// read.
func readPieces(pieces []Piece, at uint64, to []byte) (n int) {
	for n < len(to) {
		from := at + uint64(n)
		i, _ := slices.BinarySearchFunc(pieces, from, func(p Piece, a uint64) int {
			if p.At+uint64(len(p.Bytes)) <= a {
				return -1
			}
			return 1
		})
		if i == len(pieces) || from < pieces[i].At {
			return n
		}
		n += copy(to[n:], pieces[i].Bytes[from-pieces[i].At:])
	}
	return n
}

// block is the number of bytes in a block. A Recorder records whole blocks.
const block = 64

// A Recorder records the data that the unwinder reads.
type Recorder struct{ blocks map[uint64][]byte }

// ReaderAt returns a reader of file that records what is read.
func (r *Recorder) ReaderAt(file io.ReaderAt) io.ReaderAt { return recordedFile{r, file} }

type recordedFile struct {
	*Recorder
	file io.ReaderAt
}

func (f recordedFile) ReadAt(to []byte, at int64) (int, error) {
	f.record(uint64(at), len(to), func(at uint64, b []byte) bool {
		n, _ := f.file.ReadAt(b, int64(at))
		return n > 0
	})
	return f.file.ReadAt(to, at)
}

// Memory returns a function that reads the memory mem and records what is read.
func (r *Recorder) Memory(mem stack.Memory) stack.Memory {
	return func(address uint64, to []byte) bool {
		if !mem(address, to) {
			return false
		}
		r.record(address, len(to), mem)
		return true
	}
}

func (r *Recorder) record(at uint64, n int, read stack.Memory) {
	if r.blocks == nil {
		r.blocks = make(map[uint64][]byte)
	}
	for from := at &^ (block - 1); from < at+uint64(n); from += block {
		if _, known := r.blocks[from]; known {
			continue
		}
		content := make([]byte, block)
		if read(from, content) {
			r.blocks[from] = content
		}
	}
}

// Pieces returns the recorded pieces.
func (r *Recorder) Pieces() (pieces []Piece) {
	for at, content := range r.blocks {
		pieces = append(pieces, Piece{at, content})
	}
	slices.SortFunc(pieces, func(a, b Piece) int { return cmp.Compare(a.At, b.At) })
	merged := pieces[:0]
	for _, p := range pieces {
		if n := len(merged); n > 0 && merged[n-1].At+uint64(len(merged[n-1].Bytes)) == p.At {
			merged[n-1].Bytes = append(merged[n-1].Bytes, p.Bytes...)
			continue
		}
		merged = append(merged, p)
	}
	return merged
}
