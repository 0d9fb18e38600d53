//go:build !linux

package pipe

import (
	"errors"
	"os"
)

// A SpliceBuffer cannot be created on this system.
type SpliceBuffer struct{}

// NewSpliceBuffer always fails with errors.ErrUnsupported.
func NewSpliceBuffer(int) (*SpliceBuffer, error) { return nil, errors.ErrUnsupported }

func (*SpliceBuffer) Size() int                           { return 0 }
func (*SpliceBuffer) Grow(int)                            {}
func (*SpliceBuffer) Close()                              {}
func (*SpliceBuffer) SpliceFrom(*os.File) (int, error)    { return 0, errors.ErrUnsupported }
func (*SpliceBuffer) TeeTo(*SpliceBuffer, int) error      { return errors.ErrUnsupported }
func (*SpliceBuffer) SpliceTo(*os.File, int) (int, error) { return 0, errors.ErrUnsupported }

func (*SpliceBuffer) Read([]byte) (int, error) { return 0, errors.ErrUnsupported }

// IsUnsupported always returns false.
func IsUnsupported(error) bool { return false }

// IsPipe always returns false, since pipes are not treated specially on this system.
func IsPipe(*os.File) bool { return false }

// GrowPipe does nothing and returns 0.
func GrowPipe(*os.File, int) int { return 0 }
