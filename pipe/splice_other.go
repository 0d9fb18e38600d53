//go:build !linux

package pipe

import (
	"errors"
	"os"
)

// A SpliceBuffer is nothing here: New makes none.
type SpliceBuffer struct{}

// NewSpliceBuffer fails.
func NewSpliceBuffer(int) (*SpliceBuffer, error) { return nil, errors.ErrUnsupported }

func (*SpliceBuffer) Size() int                           { return 0 }
func (*SpliceBuffer) Grow(int)                            {}
func (*SpliceBuffer) Close()                              {}
func (*SpliceBuffer) SpliceFrom(*os.File) (int, error)    { return 0, errors.ErrUnsupported }
func (*SpliceBuffer) TeeTo(*SpliceBuffer, int) error      { return errors.ErrUnsupported }
func (*SpliceBuffer) SpliceTo(*os.File, int) (int, error) { return 0, errors.ErrUnsupported }

func (*SpliceBuffer) Read([]byte) (int, error) { return 0, errors.ErrUnsupported }

// IsUnsupported reports nothing: nothing is asked for.
func IsUnsupported(error) bool { return false }

// IsPipe reports that nothing is a pipe with which anything could be done.
func IsPipe(*os.File) bool { return false }

// GrowPipe does nothing.
func GrowPipe(*os.File, int) int { return 0 }
