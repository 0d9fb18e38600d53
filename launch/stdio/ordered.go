package stdio

import (
	"fmt"
	"io"
	"os"
	"time"
)

const (
	// maxSpoolMemory is how many bytes of a rank's output are kept in memory. Further output is kept in a
	// file.
	maxSpoolMemory = 32 << 10

	// replayStep is how many bytes are read from the file of a spool and written at a time.
	replayStep = 1 << 20
)

// A rankSequencer writes all output of rank 0, then all output of rank 1, and so on. It keeps the output of
// later ranks until it can be written. It does not block these ranks, because the program might then
// deadlock.
type rankSequencer struct {
	*lineAssembler
	ranks    []int // in the order of their output
	current  int   // index in ranks of the rank whose output is written now
	spools   map[int]*spool
	ended    map[int]bool
	spoolErr error // error of keeping output
}

// newRankSequencer returns a rankSequencer that passes output on to assembler. ranks must be in ascending
// order.
func newRankSequencer(assembler *lineAssembler, ranks []int) *rankSequencer {
	return &rankSequencer{lineAssembler: assembler, ranks: ranks, spools: make(map[int]*spool), ended: make(map[int]bool)}
}

// mustWait reports whether the output of a rank must be kept, because a rank with a lower number has not ended.
func (o *rankSequencer) mustWait(rank int) bool {
	return o.current < len(o.ranks) && rank > o.ranks[o.current]
}

// AddOutput adds a piece of a rank's output.
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
		o.spoolErr = fmt.Errorf("cannot store the output of rank %d for -ordered-output: %w", rank, err)
	}
}

// RankEnded records the end of a rank.
func (o *rankSequencer) RankEnded(_ *writeBuffer, rank int) { o.ended[rank] = true }

// WriteDue writes output that was kept for the current rank. If that rank has ended, it continues with the
// next rank.
func (o *rankSequencer) WriteDue(out *writeBuffer, now time.Time) (time.Time, error) {
	for o.current < len(o.ranks) && o.spoolErr == nil {
		rank := o.ranks[o.current]
		if kept := o.spools[rank]; kept != nil {
			piece, err := kept.readNext(replayStep)
			if err != nil {
				o.spoolErr = fmt.Errorf("cannot read the stored output of rank %d: %w", rank, err)
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

// EndAll marks all ranks as ended, so that WriteDue writes all output that is left.
func (o *rankSequencer) EndAll() {
	for _, rank := range o.ranks {
		o.ended[rank] = true
	}
}

// A spool keeps bytes for later: up to maxSpoolMemory in memory, and further bytes in an unlinked temporary
// file.
type spool struct {
	memory  []byte
	file    *os.File
	read    int64 // bytes of the file that were read
	written int64 // bytes written to the file
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

// readNext returns the next bytes: first all bytes in memory, then at most limit bytes of the file at a time. When no
// bytes are left, it returns an empty slice.
func (s *spool) readNext(limit int) ([]byte, error) {
	if piece := s.memory; len(piece) > 0 {
		s.memory = nil
		return piece, nil
	}
	piece := make([]byte, min(int64(limit), s.written-s.read))
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
