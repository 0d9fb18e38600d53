package stdio

import (
	"fmt"
	"io"
	"os"
	"time"
)

const (
	// maxSpoolMemory is how much of a rank's output waits in memory, in bytes. What is
	// more waits in a file.
	maxSpoolMemory = 32 << 10

	// replayStep is how much of it is written at a time, in bytes.
	replayStep = 1 << 20
)

// A rankSequencer writes all of rank 0, then all of rank 1, and so on. The ranks do not wait for
// each other, which might wait for ever: what comes too early is kept.
type rankSequencer struct {
	*lineAssembler
	ranks    []int // that come, in their order
	current  int   // index in ranks of the one that writes
	spools   map[int]*spool
	ended    map[int]bool
	spoolErr error // of keeping
}

// newRankSequencer returns an ordered for some ranks, ascending.
func newRankSequencer(of *lineAssembler, ranks []int) *rankSequencer {
	return &rankSequencer{lineAssembler: of, ranks: ranks, spools: make(map[int]*spool), ended: make(map[int]bool)}
}

// mustWait reports whether it is not yet the turn of a rank.
func (o *rankSequencer) mustWait(rank int) bool {
	return o.current < len(o.ranks) && rank > o.ranks[o.current]
}

// AddOutput takes a piece of a rank's output.
func (o *rankSequencer) AddOutput(out *writeBuffer, rank int, piece []byte) {
	kept := o.spools[rank]
	if kept == nil && !o.mustWait(rank) {
		o.lineAssembler.AddOutput(out, rank, piece)
		return
	}
	if kept == nil {
		kept = new(spool)
		o.spools[rank] = kept
	}
	if err := kept.append(piece); err != nil && o.spoolErr == nil {
		o.spoolErr = fmt.Errorf("cannot keep the output of rank %d until its turn: %w", rank, err)
	}
}

// RankEnded is the end of a rank.
func (o *rankSequencer) RankEnded(_ *writeBuffer, rank int) { o.ended[rank] = true }

// WriteDue goes on to whoever has the turn.
func (o *rankSequencer) WriteDue(out *writeBuffer, now time.Time) (time.Time, error) {
	for o.current < len(o.ranks) && o.spoolErr == nil {
		rank := o.ranks[o.current]
		if kept := o.spools[rank]; kept != nil {
			piece, err := kept.readNext(replayStep)
			if err != nil {
				o.spoolErr = fmt.Errorf("the output of rank %d that was kept: %w", rank, err)
				break
			}
			if len(piece) > 0 {
				o.lineAssembler.AddOutput(out, rank, piece)
				return now, nil
			}
			kept.close()
			delete(o.spools, rank)
		}
		if !o.ended[rank] {
			break
		}
		o.lineAssembler.RankEnded(out, rank)
		o.current++
	}
	if o.spoolErr != nil {
		return time.Time{}, o.spoolErr
	}
	return o.lineAssembler.WriteDue(out, now)
}

// EndAll says that all ranks are over. Tick writes what is left.
func (o *rankSequencer) EndAll() {
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

func (s *spool) append(piece []byte) error {
	if s.file == nil && len(s.memory)+len(piece) <= maxSpoolMemory {
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

// readNext returns what follows, up to most bytes; nothing at the end.
func (s *spool) readNext(most int) ([]byte, error) {
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
