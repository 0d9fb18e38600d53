package stdio

import (
	"fmt"
	"io"
	"os"
	"time"
)

const (
	// spoolMemory is how much of a rank's output waits in memory, in bytes. What is
	// more waits in a file.
	spoolMemory = 32 << 10

	// replayStep is how much of it is written at a time, in bytes.
	replayStep = 1 << 20
)

// An ordered writes all of rank 0, then all of rank 1, and so on. The ranks do not wait for
// each other, which might wait for ever: what comes too early is kept.
type ordered struct {
	*lines
	ranks []int // that come, in their order
	turn  int   // index in ranks of the one that writes
	early map[int]*spool
	ended map[int]bool
	fault error // of keeping
}

// newOrdered returns an ordered for some ranks, ascending.
func newOrdered(of *lines, ranks []int) *ordered {
	return &ordered{lines: of, ranks: ranks, early: make(map[int]*spool), ended: make(map[int]bool)}
}

// waits reports whether it is not yet the turn of a rank.
func (o *ordered) waits(rank int) bool { return o.turn < len(o.ranks) && rank > o.ranks[o.turn] }

// Add takes a piece of a rank's output.
func (o *ordered) Add(out *chunks, rank int, piece []byte) {
	kept := o.early[rank]
	if kept == nil && !o.waits(rank) {
		o.lines.Add(out, rank, piece)
		return
	}
	if kept == nil {
		kept = new(spool)
		o.early[rank] = kept
	}
	if err := kept.add(piece); err != nil && o.fault == nil {
		o.fault = fmt.Errorf("cannot keep the output of rank %d until its turn: %w", rank, err)
	}
}

// End is the end of a rank.
func (o *ordered) End(_ *chunks, rank int) { o.ended[rank] = true }

// Tick goes on to whoever has the turn.
func (o *ordered) Tick(out *chunks, now time.Time) (time.Time, error) {
	for o.turn < len(o.ranks) && o.fault == nil {
		rank := o.ranks[o.turn]
		if kept := o.early[rank]; kept != nil {
			piece, err := kept.next(replayStep)
			if err != nil {
				o.fault = fmt.Errorf("the output of rank %d that was kept: %w", rank, err)
				break
			}
			if len(piece) > 0 {
				o.lines.Add(out, rank, piece)
				return now, nil
			}
			kept.close()
			delete(o.early, rank)
		}
		if !o.ended[rank] {
			break
		}
		o.lines.End(out, rank)
		o.turn++
	}
	if o.fault != nil {
		return time.Time{}, o.fault
	}
	return o.lines.Tick(out, now)
}

// Finish says that all ranks are over. Tick writes what is left.
func (o *ordered) Finish() {
	for _, rank := range o.ranks {
		o.ended[rank] = true
	}
}

// A spool keeps bytes in memory, and from a size on in a file that has no name.
type spool struct {
	memory  []byte
	file    *os.File
	read    int64 // of what was kept
	written int64 // to file
}

func (s *spool) add(piece []byte) error {
	if s.file == nil && len(s.memory)+len(piece) <= spoolMemory {
		s.memory = append(s.memory, piece...)
		return nil
	}
	if s.file == nil {
		file, err := os.CreateTemp("", "mpiexec-output-")
		if err != nil {
			return err
		}
		os.Remove(file.Name())
		s.file = file
	}
	n, err := s.file.WriteAt(piece, s.written)
	s.written += int64(n)
	return err
}

// next returns what follows, up to most bytes; nothing at the end.
func (s *spool) next(most int) ([]byte, error) {
	if piece := s.memory; len(piece) > 0 {
		s.memory = nil
		return piece, nil
	}
	piece := make([]byte, min(int64(most), s.written-s.read))
	if len(piece) == 0 {
		return nil, nil
	}
	n, err := s.file.ReadAt(piece, s.read)
	s.read += int64(n)
	if err == io.EOF && n > 0 {
		err = nil
	}
	return piece[:n], err
}

func (s *spool) close() {
	if s.file != nil {
		s.file.Close()
	}
}
